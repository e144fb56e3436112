"""On-demand list prices for when the Pricing API cannot be read: Linux, shared tenancy, USD an hour.

Only us-east-1: a price of another region would be a guess. [AWS price list, read 2026-07-20]
"""

from __future__ import annotations

from datetime import UTC, datetime

READ_AT = datetime(2026, 7, 20, tzinfo=UTC)

ON_DEMAND: dict[str, dict[str, float]] = {
    "us-east-1": {
        "c7i.large": 0.08925,
        "c7i.xlarge": 0.1785,
        "c7i.2xlarge": 0.357,
        "c7i.4xlarge": 0.714,
        "m7i.large": 0.1008,
        "m7i.xlarge": 0.2016,
        "m7i.2xlarge": 0.4032,
        "m7i.4xlarge": 0.8064,
        "m7i.8xlarge": 1.6128,
        "g4dn.xlarge": 0.526,
        "g4dn.2xlarge": 0.752,
        "g4dn.4xlarge": 1.204,
        "g4dn.8xlarge": 2.176,
        "g4dn.12xlarge": 3.912,
        "g4dn.16xlarge": 4.352,
        "g5.xlarge": 1.006,
        "g5.2xlarge": 1.212,
        "g5.4xlarge": 1.624,
        "g5.8xlarge": 2.448,
        "g5.12xlarge": 5.672,
        "g5.16xlarge": 4.096,
        "g5.24xlarge": 8.144,
        "g5.48xlarge": 16.288,
        "g6.xlarge": 0.8048,
        "g6.2xlarge": 0.9776,
        "g6.4xlarge": 1.3232,
        "g6.8xlarge": 2.0144,
        "g6.12xlarge": 4.6016,
        "g6.16xlarge": 3.3968,
        "g6.24xlarge": 6.6752,
        "g6.48xlarge": 13.3504,
        "g6e.xlarge": 1.861,
        "g6e.2xlarge": 2.24208,
        "g6e.4xlarge": 3.00424,
        "g6e.8xlarge": 4.52856,
        "g6e.12xlarge": 10.49264,
        "g6e.16xlarge": 7.57719,
        "g6e.24xlarge": 15.06559,
        "g6e.48xlarge": 30.13118,
        "gr6.4xlarge": 1.5392,
        "gr6.8xlarge": 2.4464,
        "g7e.2xlarge": 3.363,
        "g7e.48xlarge": 33.144,
        "p3.2xlarge": 3.06,
        "p3.8xlarge": 12.24,
        "p3.16xlarge": 24.48,
        "p3dn.24xlarge": 31.21,
        "p4d.24xlarge": 21.96,
        "p4de.24xlarge": 27.45,
        "p5.4xlarge": 6.88,
        "p5.48xlarge": 55.04,
        "p5en.48xlarge": 63.30,
        "p6-b200.48xlarge": 113.93,
        "p6-b300.48xlarge": 142.42,
    }
}
