"""API versions, by what is asked for.

Those of compute are what azure-mgmt-compute 39 sends; the others have been served for years.
"""

from __future__ import annotations

COMPUTE = "2026-04-01"
SKUS = "2021-07-01"
DISKS = "2026-03-02"
GALLERIES = "2026-03-03"
NETWORK = "2024-05-01"
RESOURCES = "2021-04-01"
SUBSCRIPTIONS = "2022-12-01"
PERMISSIONS = "2022-04-01"
LOCKS = "2020-05-01"
MARKETPLACE = "2021-01-01"
RESOURCE_GRAPH = "2021-03-01"
QUOTA = "2025-09-01"
SCORES = "2025-06-05"
