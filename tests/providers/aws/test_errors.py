"""What EC2 answers with, over the wire, becomes the kind and the scope that the service acts on."""

from __future__ import annotations

import re
import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import NamedTuple

import pytest

from providers.aws.adapter import AwsProvider
from providers.aws.error_table import RULES
from providers.errors import ErrorKind as K
from providers.errors import ProviderError
from providers.vocabulary import CapacityType, InstanceType, Offer, OfferKey
from tests.clocks import FakeClock
from tests.providers.aws.conftest import ENVIRONMENT, account, prepared
from tests.providers.aws.stub import LOST, Answer, StubServer, error

OFFER = ("region", "zone", "instance_type", "capacity_type")
MINUTE = timedelta(minutes=1)


class Row(NamedTuple):
    """status and message as EC2 sends them; what is made of them."""

    code: str
    status: int
    message: str
    kind: K
    about: tuple[str, ...]
    avoid: timedelta | None = None
    ambiguous: bool = False
    ended: bool = False


ROWS = [
    Row(
        "InsufficientInstanceCapacity",
        500,
        "We currently do not have sufficient g6.xlarge capacity in the Availability Zone you requested "
        "(us-east-1b). You can currently get g6.xlarge capacity by not specifying an Availability Zone or "
        "choosing us-east-1a, us-east-1c.",
        K.CAPACITY,
        OFFER,
        3 * MINUTE,
    ),
    Row("UnfulfillableCapacity", 400, "Unable to fulfill capacity.", K.CAPACITY, OFFER, 3 * MINUTE),
    Row(
        "InsufficientHostCapacity",
        400,
        "There is not enough capacity.",
        K.CAPACITY,
        ("region", "zone", "instance_type"),
        10 * MINUTE,
    ),
    Row("InsufficientVolumeCapacity", 400, "gp3", K.CAPACITY, ("region", "zone"), 15 * MINUTE),
    Row(
        "InsufficientFreeAddressesInSubnet",
        400,
        "There are not enough free addresses in subnet 'subnet-1' to satisfy the requested number of "
        "instances.",
        K.CAPACITY,
        ("region", "subnet"),
        3 * MINUTE,
    ),
    Row(
        "SpotMaxPriceTooLow",
        400,
        "Your Spot request price of 0.1 is lower than the minimum required Spot request fulfillment price "
        "of 0.3.",
        K.PRICE_TOO_LOW,
        OFFER,
        5 * MINUTE,
    ),
    Row(
        "VcpuLimitExceeded",
        400,
        "You have requested more vCPU capacity than your current vCPU limit of 0 allows for the instance "
        "bucket that the specified instance type belongs to.",
        K.QUOTA,
        ("region", "family", "capacity_type"),
        15 * MINUTE,
    ),
    Row(
        "InstanceLimitExceeded",
        400,
        "You have requested more instances (1) than your current instance limit of 0 allows.",
        K.QUOTA,
        ("region", "instance_type"),
        15 * MINUTE,
    ),
    Row(
        "MaxSpotInstanceCountExceeded",
        400,
        "Max spot instance count exceeded",
        K.QUOTA,
        ("region", "family", "capacity_type"),
        5 * MINUTE,
    ),
    Row("VolumeLimitExceeded", 400, "Maximum volume storage exceeded", K.QUOTA, ("region",), 30 * MINUTE),
    Row("RequestLimitExceeded", 503, "Request limit exceeded.", K.THROTTLED, ("region",)),
    Row("Throttling", 400, "Rate exceeded", K.THROTTLED, ("region",)),
    Row(
        "UnauthorizedOperation",
        403,
        "You are not authorized to perform this operation. Encoded authorization failure message: x7Fq",
        K.AUTH,
        ("region",),
        30 * MINUTE,
    ),
    Row(
        "UnauthorizedOperation",
        403,
        "You are not authorized ... with an explicit deny in a service control policy.",
        K.AUTH,
        ("region", "instance_type"),
        360 * MINUTE,
    ),
    Row(
        "AuthFailure",
        401,
        "AWS was not able to validate the provided access credentials",
        K.AUTH,
        ("region",),
        30 * MINUTE,
    ),
    Row("AuthFailure", 401, "Not authorized for images: [ami-0abc]", K.IMAGE_MISSING, ("region", "image")),
    Row(
        "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
        403,
        "The provided credentials do not have permission to create the service-linked role for EC2 Spot.",
        K.AUTH,
        ("capacity_type",),
        30 * MINUTE,
    ),
    Row("InvalidClientTokenId", 403, "The security token is invalid.", K.AUTH, ()),
    Row("RequestExpired", 400, "Request has expired.", K.CLOCK_SKEW, ()),
    Row(
        "OptInRequired",
        401,
        "In order to use this AWS Marketplace product you need to accept terms and subscribe.",
        K.IMAGE_MISSING,
        ("region", "image"),
        60 * MINUTE,
    ),
    Row(
        "OptInRequired",
        401,
        "You are not subscribed to this service.",
        K.ACCOUNT_BLOCKED,
        ("region",),
        60 * MINUTE,
    ),
    Row(
        "PendingVerification",
        400,
        "Your request for accessing resources in this region is being validated.",
        K.ACCOUNT_BLOCKED,
        ("region",),
        30 * MINUTE,
    ),
    Row("Blocked", 400, "This account is currently blocked.", K.ACCOUNT_BLOCKED, (), 360 * MINUTE),
    Row(
        "InvalidParameterCombination",
        400,
        "The specified instance type is not eligible for Free Tier.",
        K.ACCOUNT_BLOCKED,
        (),
        360 * MINUTE,
    ),
    Row(
        "Unsupported",
        400,
        "Your requested instance type (g6.xlarge) is not supported in your requested Availability Zone "
        "(us-east-1e).",
        K.UNSUPPORTED,
        ("region", "zone", "instance_type"),
        1440 * MINUTE,
    ),
    Row(
        "Unsupported",
        400,
        "The requested configuration is currently not supported.",
        K.UNSUPPORTED,
        OFFER,
        360 * MINUTE,
    ),
    Row(
        "InvalidParameterValue",
        400,
        "Invalid value 'g9.huge' for InstanceType.",
        K.UNSUPPORTED,
        ("region", "instance_type"),
        1440 * MINUTE,
    ),
    Row(
        "InvalidAMIID.NotFound",
        400,
        "The image id '[ami-0abc]' does not exist",
        K.IMAGE_MISSING,
        ("region", "image"),
        5 * MINUTE,
    ),
    Row(
        "InvalidSubnetID.NotFound",
        400,
        "The subnet ID 'subnet-1' does not exist",
        K.NOT_FOUND,
        ("region",),
        MINUTE,
    ),
    Row(
        "InvalidGroup.NotFound",
        400,
        "The security group 'sg-1' does not exist",
        K.NOT_FOUND,
        ("region",),
        MINUTE,
    ),
    Row(
        "InvalidParameterValue",
        400,
        "Value (corral) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name",
        K.NOT_FOUND,
        ("region",),
        MINUTE,
    ),
    Row("VPCIdNotSpecified", 400, "No default VPC for this user.", K.INVALID_REQUEST, ("region",)),
    Row("InvalidUserData.Malformed", 400, "User data is limited to 16384 bytes", K.INVALID_REQUEST, OFFER),
    Row("InvalidSnapshotID.Malformed", 400, "Invalid id", K.INVALID_REQUEST, OFFER),
    Row("IncorrectInstanceState", 400, "not in a state", K.CONFLICT, OFFER),
    Row(
        "IdempotentParameterMismatch",
        400,
        "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).",
        K.IDEMPOTENCY,
        OFFER,
        ambiguous=True,
    ),
    Row(
        "IdempotentInstanceTerminated",
        400,
        "The instance launched by this client token is terminated.",
        K.IDEMPOTENCY,
        OFFER,
        ended=True,
    ),
    Row(
        "InternalError",
        500,
        "An internal error has occurred",
        K.TRANSIENT,
        ("region", "zone"),
        2 * MINUTE,
        ambiguous=True,
    ),
    Row(
        "Unavailable",
        503,
        "The service is unavailable.",
        K.TRANSIENT,
        ("region", "zone"),
        2 * MINUTE,
        ambiguous=True,
    ),
    Row(
        "Client.VcpuLimitExceeded",
        400,
        "with the prefix of events",
        K.QUOTA,
        ("region", "family", "capacity_type"),
        15 * MINUTE,
    ),
    Row("SomethingNewRefused", 400, "A refusal nobody has heard of", K.UNKNOWN, OFFER),
    Row(
        "SomethingNewFailed",
        500,
        "A failure nobody has heard of",
        K.TRANSIENT,
        ("region", "zone"),
        2 * MINUTE,
        ambiguous=True,
    ),
]


def refused(provider: AwsProvider, capacity_type: CapacityType = CapacityType.SPOT) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        provider.launch(prepared(capacity_type))
    return caught.value


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.code}-{row.kind}" for row in ROWS])
def test_an_answer_of_ec2_means(stub: StubServer, provider: AwsProvider, row: Row) -> None:
    stub.script("RunInstances", error(row.code, row.message, row.status))
    raised = refused(provider)
    assert raised.kind is row.kind
    assert set(raised.scope.given()) == {"provider", "account", *row.about}
    assert raised.avoid_for == row.avoid
    assert raised.ambiguous is row.ambiguous
    assert raised.ended is row.ended
    assert row.code.removeprefix("Client.") in str(raised)
    assert len(stub.sent("RunInstances")) == 1


def offer(zone: str, name: str, family: str, capacity_type: CapacityType) -> Offer:
    key = OfferKey("aws", "lab", "us-east-1", zone, name, capacity_type)
    return Offer(key, InstanceType(name, family, 4, 16), 1.0)


def test_a_spot_quota_covers_the_family_in_every_zone_but_neither_on_demand_nor_other_families(
    stub: StubServer, provider: AwsProvider
) -> None:
    stub.script("RunInstances", error("MaxSpotInstanceCountExceeded"))
    scope = refused(provider).scope
    assert scope.covers(offer("use1-az6", "g5.48xlarge", "G", CapacityType.SPOT))
    assert not scope.covers(offer("use1-az6", "g5.48xlarge", "G", CapacityType.ON_DEMAND))
    assert not scope.covers(offer("use1-az6", "p5.48xlarge", "P", CapacityType.SPOT))


@pytest.mark.parametrize(
    "answer",
    [LOST, Answer(200, "<html>proxy login</html>"), Answer(200, "not even XML"), Answer(502, "Bad gateway")],
    ids=["closed", "foreign", "garbage", "gateway"],
)
def test_an_answer_that_is_no_answer_leaves_the_launch_open(
    stub: StubServer, provider: AwsProvider, answer: Answer
) -> None:
    stub.script("RunInstances", answer)
    raised = refused(provider)
    assert raised.ambiguous
    assert raised.kind in (K.TRANSIENT, K.UNKNOWN)
    assert len(stub.sent("RunInstances")) == 1


def test_nobody_listening_is_a_clean_failure() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, never listening: connections are refused
        config = account(f"http://127.0.0.1:{taken.getsockname()[1]}")
        deaf = AwsProvider(config, FakeClock(waits_advance=True), environment=ENVIRONMENT)
        raised = refused(deaf)
        deaf.close()
    assert (raised.kind, raised.ambiguous) == (K.TRANSIENT, False)


def test_AUT_04_refused_credentials_on_a_machine_with_a_wrong_clock_are_clock_skew(
    stub: StubServer, provider: AwsProvider
) -> None:
    theirs = datetime.now(UTC) + timedelta(minutes=20)
    headers = {"Date": format_datetime(theirs, usegmt=True)}
    stub.script("RunInstances", error("AuthFailure", "not able to validate", 401, headers))
    raised = refused(provider)
    assert raised.kind is K.CLOCK_SKEW
    assert re.search("clock is -(1199|1200|1201) s off", raised.message)


def test_the_vendors_retry_after_is_passed_on(stub: StubServer, provider: AwsProvider) -> None:
    stub.script("RunInstances", error("RequestLimitExceeded", "", 503, {"Retry-After": "7"}))
    assert refused(provider).retry_after == 7


def test_no_code_is_in_two_rows_unless_a_hint_tells_them_apart() -> None:
    plain = [code for rule in RULES if not rule.hint for code in rule.codes]
    assert len(plain) == len(set(plain))


def test_FAI_12_a_type_that_its_zone_does_not_have_closes_that_zone_for_long_and_not_for_ever(
    stub: StubServer, provider: AwsProvider
) -> None:
    where = "is not supported in your requested Availability Zone (us-east-1e). Please retry your request by "
    for code in ("Unsupported", "InvalidParameterCombination"):
        stub.script("RunInstances", error(code, f"Your requested instance type (p4d.24xlarge) {where}"))
        raised = refused(provider)
        assert (raised.kind, raised.avoid_for) == (K.UNSUPPORTED, timedelta(hours=24))
        assert set(raised.scope.given()) == {"provider", "account", "region", "zone", "instance_type"}
        assert not raised.ambiguous


def test_FAI_12_a_wrong_combination_that_speaks_of_no_zone_is_an_error_of_the_request(
    stub: StubServer, provider: AwsProvider
) -> None:
    stub.script(
        "RunInstances", error("InvalidParameterCombination", "Enclaves and hibernation exclude each other")
    )
    assert refused(provider).kind is K.INVALID_REQUEST
