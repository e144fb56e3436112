"""Canonical GPU names, the same on every cloud, with the memory that a person means by them."""

from __future__ import annotations

# Name -> GB of memory each, as NVIDIA's data sheets give it. Where one model is sold in two sizes the
# bare name is the smaller one, as in other tools of the field.
MEMORY_GB: dict[str, float] = {
    "P4": 8,
    "P100": 16,
    "T4": 16,
    "T4G": 16,
    "V100": 16,
    "V100-32GB": 32,
    "A10": 24,
    "A10G": 24,
    "L4": 24,
    "L40S": 48,
    "A100": 40,
    "A100-80GB": 80,
    "H100": 80,
    "H100-MEGA": 80,
    "H100-NVL": 94,
    "H200": 141,
    "B200": 180,
    "GB200": 186,
    "B300": 288,
    "GB300": 288,
    "RTX-PRO-4500": 32,
    "RTX-PRO-6000": 96,
}
