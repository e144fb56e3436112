"""What the settings say of the quota desk: when it asks by itself, in whose words, and when it asks again."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from policies.model import RunClass
from service.quota_desk.justification import TEMPLATE, TemplateFaultError, check_template


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class QuotaRule(_Part):
    """When the service asks for quota by itself: for jobs that have waited on one for `waits` seconds.

    provider, project and class limit it to some jobs and clouds. file: it is filed at once; else it is
    proposed, and a person decides. max_gpus: no limit beyond so many GPUs' worth is asked for. max_open:
    how many requests of the rule may be undecided at a time.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")
    provider: str | None = None
    project: str | None = None
    run_class: RunClass | None = Field(default=None, alias="class")
    waits: float = Field(default=3600, ge=60, le=30 * 86400)
    file: bool = False
    max_gpus: int = Field(ge=1, le=100_000)
    max_open: int = Field(default=5, ge=1, le=100)

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Refile(_Part):
    """Asking again after a denial or a partial grant: `after` seconds later, for `factor` times the limit,
    up to what was wanted, at most `tries` times.
    """

    after: float = Field(default=7 * 86400, ge=3600, le=365 * 86400)
    factor: float = Field(default=2, ge=1, le=100)
    tries: int = Field(default=3, ge=1, le=20)


class QuotaDesk(_Part):
    """Requests for more quota. contact: an e-mail address that goes with them. justification: a jinja2
    template; `words` are its own names. proposals_last: seconds until a proposal that nobody decided expires.
    """

    contact: str | None = Field(default=None, pattern=r"^[^@\s]+@[^@\s]+$", max_length=255)
    justification: str | None = Field(default=None, max_length=10_000)
    words: dict[str, str] = Field(default_factory=dict)
    rules: tuple[QuotaRule, ...] = ()
    refile: Refile | None = None
    proposals_last: float = Field(default=7 * 86400, ge=3600, le=90 * 86400)

    @model_validator(mode="after")
    def _usable(self) -> Self:
        names = [rule.name for rule in self.rules]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"rules: {twice[0]} is listed more than once")
        if self.justification is not None or self.words:
            try:
                check_template(self.justification or TEMPLATE, self.words)
            except TemplateFaultError as fault:
                raise ValueError(f"justification: {fault}") from None
        return self
