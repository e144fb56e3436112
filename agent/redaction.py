"""Takes secret values out of a stream of bytes, also where a value is cut by the borders of reads."""

from __future__ import annotations

from collections.abc import Iterable

MASK = b"***"
_LINE_WORTH_HIDING = 8  # bytes: a shorter line of a longer secret says nothing by itself


class Redactor:
    """Feed it the stream; what comes back may lag behind by at most the longest secret.

    Each byte that belongs to an occurrence of a secret is hidden, overlapping ones too; a run of hidden
    bytes comes out as one `***`. Of a secret of several lines (a key, say), each longer line is hidden
    by itself as well.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self._needles = sorted(_needles(secrets), key=len, reverse=True)
        self._longest = max(map(len, self._needles), default=0)
        self._initials = {needle[0] for needle in self._needles}
        self._held = b""
        self._hidden = 0  # how many bytes at the start of `_held` are known to be secret
        self._masking = False

    def feed(self, data: bytes) -> bytes:
        """What may be shown by now."""
        if not self._needles:
            return data
        self._held += data
        return self._release(len(self._held) - self._undecided())

    def finish(self) -> bytes:
        """The rest, at the end of the stream."""
        rest = self._release(len(self._held))
        self._masking = False
        return rest

    def _undecided(self) -> int:
        """Length of the longest end of what is held that may be the beginning of a secret."""
        begin = max(0, len(self._held) - self._longest + 1)
        for position in range(begin, len(self._held)):
            if self._held[position] not in self._initials:
                continue
            tail = self._held[position:]
            if any(len(needle) > len(tail) and needle.startswith(tail) for needle in self._needles):
                return len(tail)
        return 0

    def _release(self, upto: int) -> bytes:
        spans = self._spans()
        shown = bytearray()
        position = 0
        for start, end in spans:
            if start >= upto:
                break
            self._show(shown, position, start)
            if not self._masking:
                shown += MASK
                self._masking = True
            position = end
        if position < upto:
            self._show(shown, position, upto)
        self._hidden = max((end - upto for start, end in spans if start <= upto < end), default=0)
        self._held = self._held[upto:]
        return bytes(shown)

    def _show(self, shown: bytearray, start: int, end: int) -> None:
        if end > start:
            shown += self._held[start:end]
            self._masking = False

    def _spans(self) -> list[tuple[int, int]]:
        """Where secrets stand in what is held, merged, in order."""
        found = [(0, self._hidden)] if self._hidden else []
        for needle in self._needles:
            at = self._held.find(needle)
            while at >= 0:
                found.append((at, at + len(needle)))
                at = self._held.find(needle, at + 1)
        merged: list[tuple[int, int]] = []
        for start, end in sorted(found):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        return merged


def _needles(secrets: Iterable[str]) -> set[bytes]:
    found = set()
    for secret in secrets:
        found.add(secret.encode())
        lines = secret.splitlines()
        if len(lines) > 1:
            found.update(line.encode() for line in lines if len(line) >= _LINE_WORTH_HIDING)
    found.discard(b"")
    return found
