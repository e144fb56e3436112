"""Resource Graph, as far as it is asked here: which machines Azure says it has evicted."""

from __future__ import annotations

import re

from starlette.responses import JSONResponse, Response

from sandbox.faces.arm.call import ArmError, Call
from sandbox.faces.arm.state import Face, id_of

_ANNOTATIONS = re.compile(
    r"^\s*HealthResources\s*\|\s*where\s+type\s*=~\s*'microsoft\.resourcehealth/resourceannotations'"
    r".*annotationName\s*=~\s*'VirtualMachinePreempted'.*targetResourceId\s+in~\s*\((?P<ids>[^)]*)\)",
    re.IGNORECASE | re.DOTALL,
)


def query(face: Face, call: Call) -> Response:
    """Annotations `VirtualMachinePreempted` of the machines that the query names."""
    found = _ANNOTATIONS.match(str(call.body.get("query") or ""))
    if found is None:
        text = "The sandbox answers queries for annotations of evicted machines by targetResourceId only."
        raise ArmError(400, "BadRequest", text)
    wanted = {text.lower() for text in re.findall(r"'([^']*)'", found["ids"])}
    evicted = face.world.vms("azure", lambda vm: vm.end_reason == "preempted")
    names = dict.fromkeys(id_of(vm).lower() for vm in evicted if id_of(vm).lower() in wanted)
    rows = [{"targetResourceId": name} for name in names]
    return JSONResponse(
        {
            "totalRecords": len(rows),
            "count": len(rows),
            "data": rows,
            "facets": [],
            "resultTruncated": "false",
        }
    )
