"""Resource Graph, as far as it is asked here: evicted machines, and how often sizes are evicted."""

from __future__ import annotations

import re
from typing import Any

from starlette.responses import JSONResponse, Response

from sandbox.catalogue import catalogue
from sandbox.faces.arm.call import ArmError, Call
from sandbox.faces.arm.state import Face, id_of

_ANNOTATIONS = re.compile(
    r"^\s*HealthResources\s*\|\s*where\s+type\s*=~\s*'microsoft\.resourcehealth/resourceannotations'"
    r".*annotationName\s*=~\s*'VirtualMachinePreempted'.*targetResourceId\s+in~\s*\((?P<ids>[^)]*)\)",
    re.IGNORECASE | re.DOTALL,
)


_EVICTIONS = re.compile(
    r"^\s*SpotResources\s*\|\s*where\s+type\s*=~\s*'microsoft\.compute/skuspotevictionrate/location'"
    r".*location\s*=~\s*'(?P<region>[^']*)'.*sku\.name\s+in~\s*\((?P<sizes>[^)]*)\)",
    re.IGNORECASE | re.DOTALL,
)
_BANDS = ((5, "0-5"), (10, "5-10"), (15, "10-15"), (20, "15-20"))


def query(face: Face, call: Call) -> Response:
    """Annotations `VirtualMachinePreempted` of the machines that a query names, or rates of sizes."""
    text = str(call.body.get("query") or "")
    if found := _ANNOTATIONS.match(text):
        return _table(_annotations(face, _quoted(found["ids"])))
    if found := _EVICTIONS.match(text):
        return _table(_rates(face, found["region"].lower(), _quoted(found["sizes"])))
    wrong = "The sandbox answers queries for annotations of evicted machines and for eviction rates only."
    raise ArmError(400, "BadRequest", wrong)


def _quoted(text: str) -> set[str]:
    return {one.lower() for one in re.findall(r"'([^']*)'", text)}


def _annotations(face: Face, wanted: set[str]) -> list[dict[str, Any]]:
    evicted = face.world.vms("azure", lambda vm: vm.end_reason == "preempted")
    names = dict.fromkeys(id_of(vm).lower() for vm in evicted if id_of(vm).lower() in wanted)
    return [{"targetResourceId": name} for name in names]


def _rates(face: Face, region: str, wanted: set[str]) -> list[dict[str, Any]]:
    """Sizes in lower case, as the real table has them; one rate for all, as the scenario says."""
    table, share = catalogue("azure"), face.world.scenario.interruptions.azure * 100
    band = next((name for end, name in _BANDS if share < end), "20+")
    sold = [size for size in table.types if table.sold(region, size) and size.lower() in wanted]
    return [{"size": size.lower(), "rate": band} for size in sold]


def _table(rows: list[dict[str, Any]]) -> Response:
    return JSONResponse(
        {
            "totalRecords": len(rows),
            "count": len(rows),
            "data": rows,
            "facets": [],
            "resultTruncated": "false",
        }
    )
