"""Region names as people write them, brought to the cloud's own spelling; a zone is not a region."""

from __future__ import annotations

import re

# EC2 regions are `us-east-1`, `us-gov-west-1`; its zones add a letter, its local zones a city
# (`us-west-2-lax-1a`). Compute Engine regions end in a digit, its zones in `-a`. Azure regions have no dashes
# and are shown with spaces ("East US"); a zone there is a bare number.
_AWS_REGION = re.compile(r"^[a-z]{2,3}(-[a-z]+)+-\d{1,2}$")
_AWS_ZONE = re.compile(r"^([a-z]{2,3}(?:-[a-z]+)+?-\d{1,2})(?:-[a-z]{3}-\d{1,2})?[a-z]$")
_GCP_REGION = re.compile(r"^[a-z]+-[a-z]+\d{1,2}$")
_GCP_ZONE = re.compile(r"^([a-z]+-[a-z]+\d{1,2})-[a-z]$")
_AZURE_REGION = re.compile(r"^[a-z]+\d?[a-z]*\d?$")
_AZURE_ZONE = re.compile(r"^([a-z]+\d?)-\d$")

_SPELLINGS = {
    "aws": (_AWS_REGION, _AWS_ZONE, "us-east-1"),
    "gcp": (_GCP_REGION, _GCP_ZONE, "us-central1"),
    "azure": (_AZURE_REGION, _AZURE_ZONE, "eastus"),
}


def canonical_region(provider: str, name: str) -> str:
    """The cloud's spelling of a region. ValueError says why it is none, and which region a zone lies in."""
    spellings = _SPELLINGS.get(provider)
    if spellings is None:
        return name.strip()
    region, zone, example = spellings
    text = name.strip().lower()
    if provider == "azure":
        text = text.replace(" ", "")
    if region.match(text):
        return text
    inside = zone.match(text)
    if inside:
        raise ValueError(f"{name!r} is a zone; write the region {inside[1]!r} and name zones below it")
    raise ValueError(f"{name!r} is no region of {provider}; regions look like {example!r}")
