"""EC2's neighbours on the same port: STS and Systems Manager."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandbox.faces.ec2.context import Context
from sandbox.faces.ec2.errors import AwsError
from sandbox.faces.ec2.site import ACCOUNT, IMAGE_MADE, PARAMETERS


def get_caller_identity(context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
    """Everybody is the same user here."""
    return {"UserId": "AIDASANDBOX", "Account": ACCOUNT, "Arn": f"arn:aws:iam::{ACCOUNT}:user/sandbox"}


def get_parameter(context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
    """The region's image under the names of images."""
    name = params["Name"]
    if name not in PARAMETERS:
        raise AwsError("ParameterNotFound", f"Parameter {name} not found.")
    parameter = {
        "Name": name,
        "Type": "String",
        "Value": context.site.image,
        "Version": 1,
        "LastModifiedDate": IMAGE_MADE,
        "ARN": f"arn:aws:ssm:{context.region}::parameter{name}",
        "DataType": "aws:ec2:image",
    }
    return {"Parameter": parameter}
