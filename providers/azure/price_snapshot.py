"""Linux list prices, for when the price API cannot be read. On-demand only: spot prices move.

Source: Azure retail prices (pay as you go, USD per hour). Regions whose prices differ are not here, since a
price that is not known must not be guessed.
"""

from __future__ import annotations

from datetime import UTC, datetime

TAKEN_AT = datetime(2026, 1, 1, tzinfo=UTC)

REGIONS = frozenset({"eastus", "eastus2", "westus2", "westus3"})

ON_DEMAND: dict[str, float] = {
    "Standard_NC4as_T4_v3": 0.526,
    "Standard_NC8as_T4_v3": 0.752,
    "Standard_NC16as_T4_v3": 1.204,
    "Standard_NC64as_T4_v3": 4.352,
    "Standard_NV36ads_A10_v5": 3.2,
    "Standard_NV36adms_A10_v5": 4.52,
    "Standard_NV72ads_A10_v5": 6.52,
    "Standard_NC24ads_A100_v4": 3.673,
    "Standard_NC48ads_A100_v4": 7.346,
    "Standard_NC96ads_A100_v4": 14.692,
    "Standard_ND96asr_v4": 27.197,
    "Standard_ND96amsr_A100_v4": 32.77,
    "Standard_NC40ads_H100_v5": 6.98,
    "Standard_NC80adis_H100_v5": 13.96,
    "Standard_ND96isr_H100_v5": 98.32,
    "Standard_D2s_v5": 0.096,
    "Standard_D4s_v5": 0.192,
    "Standard_D8s_v5": 0.384,
    "Standard_D16s_v5": 0.768,
    "Standard_D32s_v5": 1.536,
    "Standard_D64s_v5": 3.072,
    "Standard_E4s_v5": 0.252,
    "Standard_E8s_v5": 0.504,
    "Standard_E16s_v5": 1.008,
    "Standard_E32s_v5": 2.016,
}
