"""The reduced service models: the calls that are made behave as with the whole ones, nothing else is held."""

from __future__ import annotations

import botocore.loaders
import pytest
from botocore.model import ServiceModel, Shape

from providers.aws.models import OPERATIONS, loader


def outline(shape: Shape | None, seen: frozenset[str] = frozenset()) -> object:
    """A shape down to its leaves, with what decides how it is written and read."""
    if shape is None:
        return None
    head = (shape.type_name, sorted(shape.serialization.items()), sorted(map(str, shape.metadata.items())))
    if shape.name in seen:
        return head
    deeper = seen | {shape.name}
    inner: object = None
    if shape.type_name == "structure":
        inner = {name: outline(member, deeper) for name, member in shape.members.items()}
    elif shape.type_name == "list":
        inner = outline(shape.member, deeper)
    elif shape.type_name == "map":
        inner = (outline(shape.key, deeper), outline(shape.value, deeper))
    return (head, inner)


@pytest.mark.parametrize("service", sorted(OPERATIONS))
def test_every_call_has_the_same_input_and_output_as_in_the_whole_model(service: str) -> None:
    ours = ServiceModel(loader().load_service_model(service, "service-2"), service)
    whole = ServiceModel(botocore.loaders.Loader().load_service_model(service, "service-2"), service)
    assert set(ours.operation_names) == OPERATIONS[service]
    assert ours.metadata == whole.metadata
    for name in ours.operation_names:
        mine, theirs = ours.operation_model(name), whole.operation_model(name)
        assert outline(mine.input_shape) == outline(theirs.input_shape), name
        assert outline(mine.output_shape) == outline(theirs.output_shape), name
        assert mine.idempotent_members == theirs.idempotent_members
        assert mine.http == theirs.http


def test_a_service_that_is_not_reduced_is_whole() -> None:
    assert "AssumeRoleWithWebIdentity" in loader().load_service_model("sts", "service-2")["operations"]
