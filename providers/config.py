"""What the settings say of a cloud account. Credentials are references, never values."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

from providers.regions import canonical_region

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,39}$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Credentials(_Strict):
    """Where a secret is found. With nothing given the SDK's own chain is used (instance role, workload
    identity, profile).

    file: a credentials file of the vendor's own form. environment: a prefix; `RESEARCH_` reads
    `RESEARCH_AWS_ACCESS_KEY_ID` and so on. profile: an AWS profile. role: an AWS role ARN to assume, a
    Google service account to impersonate, or an Azure managed identity's client id.
    """

    file: str | None = None
    environment: str | None = None
    profile: str | None = None
    role: str | None = None
    external_id: str | None = None


class RegionConfig(_Strict):
    """What an account uses in one region. Names and ids are the vendor's.

    fabric_subnets: instance type -> GCE subnetworks for its further network interfaces, in order; without
    them a type is not offered with a fast interconnect.
    subnets: EC2 subnet ids, GCE subnetwork names, ARM subnet ids; empty means the vendor's default network.
    image: EC2 image id, GCE image or family URL, ARM image id or URN; None takes the account's image.
    zones: only these; empty means all.
    """

    subnets: tuple[str, ...] = ()
    security_groups: tuple[str, ...] = ()
    public_address: bool = True
    instance_role: str | None = None
    image: str | None = None
    zones: tuple[str, ...] = ()
    fabric_subnets: dict[str, tuple[str, ...]] = {}


class AccountConfig(_Strict):
    """One account. `project` is the GCP project id, `subscription` and `resource_group` are Azure's.

    endpoint: sends every call of this account there instead of to the cloud; loopback only.
    allowed_types: only these instance types are offered; empty means every type with an accelerator.
    """

    name: Name
    provider: Literal["aws", "gcp", "azure", "memory"]
    credentials: Credentials = Credentials()
    project: str | None = None
    subscription: str | None = None
    resource_group: str | None = None
    image: str | None = None
    regions: dict[str, RegionConfig] = Field(min_length=1)
    endpoint: str | None = None
    proxy: str | None = None
    ca_bundle: str | None = None
    allowed_types: tuple[str, ...] = ()
    max_concurrent_calls: int = Field(default=8, ge=1, le=64)

    @model_validator(mode="before")
    @classmethod
    def _regions_by_the_clouds_names(cls, data: Any) -> Any:
        """A list of names will do for `regions`; names are trimmed and brought to the cloud's spelling."""
        if not isinstance(data, dict) or not isinstance(data.get("regions"), (list, tuple, dict)):
            return data
        given, provider = data["regions"], str(data.get("provider"))
        pairs = given.items() if isinstance(given, dict) else ((name, {}) for name in given)
        regions: dict[str, Any] = {}
        for name, region in pairs:
            known = canonical_region(provider, str(name))
            if isinstance(given, dict) and known in regions:
                raise ValueError(f"regions: {known} is given twice")
            regions[known] = region or {}
        return {**data, "regions": regions}

    @model_validator(mode="after")
    def _complete(self) -> Self:
        needed = {"gcp": ("project",), "azure": ("subscription", "resource_group")}.get(self.provider, ())
        missing = [name for name in needed if not getattr(self, name)]
        if missing:
            raise ValueError(f"a {self.provider} account needs {' and '.join(missing)}")
        if self.endpoint is not None and not is_loopback(self.endpoint):
            raise ValueError("endpoint: only a loopback address is allowed, for local clouds")
        return self


def is_loopback(url: str) -> bool:
    """True if the URL's host is this machine."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:  # half a pair of brackets
        return False
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
