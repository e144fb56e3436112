"""Azure's failures as ProviderError: the codes are taken out of the answer, then the table is asked."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from providers.azure.error_table import RULES, THROTTLE_TEXT, THROTTLES, WRAPPERS, Reach, Rule
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import CapacityType, Scope

if TYPE_CHECKING:
    from azure.core.exceptions import AzureError

# The text of a refusal for quota, as the compute provider writes it (quota errors documentation).
QUOTA_TEXT = re.compile(
    r"exceeding approved (?P<name>.+?)(?P<cores> Cores)? quota\b.*?Location: (?P<location>[^,]+), "
    r"Current Limit: (?P<limit>\d+), Current Usage: (?P<usage>\d+), Additional Required: (?P<required>\d+)",
    re.DOTALL,
)
OLD_QUOTA_TEXT = re.compile(
    r"exceeding quota limits of (?P<name>\w+)\. Maximum allowed: (?P<limit>\d+), "
    r"Current in use: (?P<usage>\d+), Additional requested: (?P<required>\d+)"
)
# The link to the portal names the usage row exactly.
QUOTA_KEY = re.compile(
    r'(?:%22|")resourceName(?:%22|")(?::|%3A)(?:%22|")(?P<key>.+?)(?:%22|")', re.IGNORECASE
)
RESTRICTED_TEXT = re.compile(r"is currently not available in location", re.IGNORECASE)

_INNER_CODE = re.compile(r'Code="(\w+)"\s+Message="([^"]*)"?')
_DEPTH = 8  # details within details


@dataclass(frozen=True, slots=True)
class Attempt:
    """What was asked for when something failed. Empty fields: nothing of the kind was named.

    restricted: the catalogue says that the subscription may not use this size here.
    creating: a create was sent, so no answer does not mean that nothing happened.
    """

    account: str
    region: str | None = None
    zone: str | None = None
    instance_type: str | None = None
    capacity_type: CapacityType | None = None
    image: str | None = None
    subnet: str | None = None
    reservation: str | None = None
    placement_group: str | None = None
    restricted: bool = False
    creating: bool = False


def family_key(name: str) -> str:
    """A quota family as one spelling: Azure writes the same one with and without blanks, in two cases."""
    return re.sub(r"[ _-]", "", name).lower()


def codes(body: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Each (code, message) of an error body, outermost first, details and JSON within messages included."""
    if depth > _DEPTH or not isinstance(body, Mapping):
        return
    if isinstance(body.get("error"), Mapping):
        yield from codes(body["error"], depth + 1)
        return
    code, message = str(body.get("code") or ""), str(body.get("message") or "")
    if code or message:
        yield code, message
    if message.lstrip().startswith("{"):
        with contextlib.suppress(ValueError):
            yield from codes(json.loads(message), depth + 1)
    yield from _INNER_CODE.findall(message)
    for detail in body.get("details") or ():
        yield from codes(detail, depth + 1)


def from_body(
    status: int | None, body: Any, attempt: Attempt, *, retry_after: float | None = None
) -> ProviderError:
    """What an error answer means. `status` is the HTTP status; None or 200 for a failed operation, whose
    error arrives in the body of a good answer.
    """
    found = list(codes(body))
    text = _text(body, found)
    outer = found[0][0] if found else ""
    if status == 429 or any(THROTTLES.match(code) for code, _ in found) or _throttle_text(found):
        code = next((code for code, _ in found if THROTTLES.match(code)), outer)
        return _error(ErrorKind.THROTTLED, text, code, _scope(attempt, Reach.REGION), retry_after=retry_after)
    quota = QUOTA_TEXT.search(text) or OLD_QUOTA_TEXT.search(text)
    if quota:
        return _quota(quota, text, outer, attempt)
    rule, code = _rule(found, text, attempt)
    if rule is None:
        return _unlisted(status, outer, text, attempt, retry_after)
    kind, avoid = rule.kind, rule.avoid
    if attempt.restricted and RESTRICTED_TEXT.search(text):
        kind, avoid = ErrorKind.UNSUPPORTED, timedelta(hours=24)
    if attempt.placement_group and rule.reach is Reach.PLACEMENT:
        # The cluster that the set was tied to is full: the next launch has a set of its own.
        avoid = timedelta(minutes=5)
    ambiguous = attempt.creating and (rule.ambiguous or (status or 0) >= 500)
    scope = _scope(attempt, rule.reach)
    return _error(kind, text, code, scope, avoid_for=avoid, ambiguous=ambiguous, retry_after=retry_after)


def from_exception(error: AzureError, attempt: Attempt) -> ProviderError:
    """What an exception of the SDK means. The class says little (every 409 is ResourceExistsError, a failed
    operation is an HttpResponseError with status 200), so code and status decide.
    """
    from azure.core.exceptions import ClientAuthenticationError, HttpResponseError, ServiceRequestError

    response = getattr(error, "response", None)
    if isinstance(error, HttpResponseError) and response is not None:
        return from_body(error.status_code, _body(error), attempt, retry_after=_retry_after(response.headers))
    if isinstance(error, ClientAuthenticationError):
        scope = _scope(attempt, Reach.ACCOUNT)
        return _error(
            ErrorKind.AUTH, str(error), "CredentialUnavailable", scope, avoid_for=timedelta(minutes=5)
        )
    if isinstance(error, ServiceRequestError):
        return _error(ErrorKind.TRANSIENT, str(error), "NotSent", _scope(attempt, Reach.REGION))
    # Sent, and no whole answer came: Azure may have carried it out.
    return _error(
        ErrorKind.TRANSIENT,
        str(error),
        "NoAnswer",
        _scope(attempt, Reach.OFFER),
        ambiguous=attempt.creating,
    )


def _rule(found: list[tuple[str, str]], text: str, attempt: Attempt) -> tuple[Rule | None, str]:
    """The row for the innermost code that the table knows; a wrapper counts only if nothing else does."""
    inner_first = [code for code, _ in reversed(found) if code]
    ordered = [code for code in inner_first if code.lower() not in WRAPPERS]
    ordered += [code for code in inner_first if code.lower() in WRAPPERS]
    for code in ordered:
        for rule in RULES:
            if rule.fits(code, text, attempt.capacity_type):
                return rule, code
    return None, ""


# Answers whose code the table does not know. An unknown 4xx says something of this offer only.
_BY_STATUS: dict[int, tuple[ErrorKind, Reach]] = {
    401: (ErrorKind.AUTH, Reach.ACCOUNT),
    403: (ErrorKind.AUTH, Reach.ACCOUNT),
    404: (ErrorKind.NOT_FOUND, Reach.REGION),
    408: (ErrorKind.TRANSIENT, Reach.OFFER),
    412: (ErrorKind.CONFLICT, Reach.OFFER),
}


def _unlisted(
    status: int | None, code: str, text: str, attempt: Attempt, retry_after: float | None
) -> ProviderError:
    if status is not None and status >= 500:
        kind, reach = ErrorKind.TRANSIENT, Reach.OFFER
    else:
        kind, reach = _BY_STATUS.get(status or 0, (ErrorKind.UNKNOWN, Reach.OFFER))
    ambiguous = attempt.creating and (kind is ErrorKind.TRANSIENT or (status or 0) < 400)
    code = code or (f"HTTP {status}" if status else "")
    return _error(kind, text, code, _scope(attempt, reach), ambiguous=ambiguous, retry_after=retry_after)


def _quota(match: re.Match[str], text: str, code: str, attempt: Attempt) -> ProviderError:
    """Spot draws from one pool per region; on demand needs the region's cores and the family's."""
    key = QUOTA_KEY.search(text)
    name = family_key(unquote(key["key"]) if key else match["name"])
    region = attempt.region
    if name == "lowprioritycores":
        scope = Scope("azure", attempt.account, region, capacity_type=CapacityType.SPOT)
    elif name in {"cores", "core", "totalregional", "totalregionalcores", "totalregionalvcpus"}:
        scope = Scope("azure", attempt.account, region, capacity_type=CapacityType.ON_DEMAND)
    elif name != "virtualmachines" and (key or match.groupdict().get("cores")):
        scope = Scope("azure", attempt.account, region, family=name, capacity_type=CapacityType.ON_DEMAND)
    else:
        scope = _scope(attempt, Reach.REGION)
    avoid = timedelta(minutes=10) if int(match["limit"]) else timedelta(hours=1)
    return _error(ErrorKind.QUOTA, text, code, scope, avoid_for=avoid)


def _scope(attempt: Attempt, reach: Reach) -> Scope:
    a = attempt
    spot = CapacityType.SPOT
    match reach:
        case Reach.ACCOUNT:
            return Scope("azure", a.account)
        case Reach.ACCOUNT_SPOT:
            return Scope("azure", a.account, capacity_type=spot)
        case Reach.ACCOUNT_IMAGE:
            return Scope("azure", a.account, image=a.image)
        case Reach.REGION:
            return Scope("azure", a.account, a.region)
        case Reach.REGION_SIZE:
            return Scope("azure", a.account, a.region, instance_type=a.instance_type)
        case Reach.REGION_SIZE_SPOT:
            return Scope("azure", a.account, a.region, instance_type=a.instance_type, capacity_type=spot)
        case Reach.REGION_SUBNET:
            return Scope("azure", a.account, a.region, subnet=a.subnet)
        case Reach.REGION_IMAGE:
            return Scope("azure", a.account, a.region, image=a.image)
        case Reach.SIZE_IMAGE:
            return Scope("azure", a.account, a.region, instance_type=a.instance_type, image=a.image)
        case Reach.PLACEMENT:
            # What a reservation lacks, the open market may have, and the other way round.
            reserved = CapacityType.RESERVED if a.reservation else None
            place = Scope("azure", a.account, a.region, a.zone, a.instance_type, capacity_type=reserved)
            return replace(place, reservation=a.reservation, placement_group=a.placement_group)
        case Reach.OFFER:
            place = Scope("azure", a.account, a.region, a.zone, a.instance_type)
            return replace(place, capacity_type=a.capacity_type, reservation=a.reservation)


def _error(kind: ErrorKind, text: str, code: str, scope: Scope, **more: Any) -> ProviderError:
    return ProviderError(kind, text or "Azure gave no reason", code=code, scope=scope, **more)


def _throttle_text(found: list[tuple[str, str]]) -> bool:
    return any(code.lower() == "operationnotallowed" and THROTTLE_TEXT.search(text) for code, text in found)


def _text(body: Any, found: list[tuple[str, str]]) -> str:
    """All messages, each once, and the names of policies, which stand beside them."""
    parts = list(dict.fromkeys(text.strip() for _, text in found if text.strip()))
    inner = body.get("error", body) if isinstance(body, Mapping) else None
    if isinstance(inner, Mapping) and inner.get("additionalInfo"):
        parts.append(json.dumps(inner["additionalInfo"]))
    if not parts and isinstance(body, str):
        parts.append(body[:500])
    return " ".join(parts)[:4000]


def _body(error: Any) -> Any:
    """The JSON body of an error answer; its text where it is none."""
    try:
        return json.loads(error.response.text())
    except Exception:
        return str(error)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a Retry-After header asks for; a date there is not used by Resource Manager."""
    for name, unit in (("retry-after-ms", 0.001), ("x-ms-retry-after-ms", 0.001), ("Retry-After", 1.0)):
        value = headers.get(name)
        if value is not None and value.strip().isdigit():
            return int(value) * unit
    return None
