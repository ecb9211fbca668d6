"""All minimal conflicts of things that cannot all hold, and the largest sets that can, by asking a solver of sets."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence

#: Whether the things at these places can all hold; what is not decided counts as possible.
Possible = Callable[[Collection[int]], bool]


def explore(count: int, possible: Possible, *, most: int,
            until: float) -> tuple[list[frozenset[int]], list[frozenset[int]], bool]:
    """Minimal conflicts, minimal corrections (what is left out of a largest possible set), whether these are all.

    Takes a set that is in no known possible set and holds no known conflict, and makes it a new one of either. Stops
    after ``most`` of both together, or at ``until`` on the monotonic clock.
    """
    everything = frozenset(range(count))
    conflicts: list[frozenset[int]] = []
    corrections: list[frozenset[int]] = []
    while len(conflicts) + len(corrections) < most:
        seed = unexplored(everything, conflicts, corrections)
        if seed is None:
            return conflicts, corrections, True
        if possible(seed):
            grown = set(seed)
            for place in sorted(everything - seed):
                if possible(grown | {place}):
                    grown.add(place)
            found, into = everything - grown, corrections
        else:
            shrunk = set(seed)
            for place in sorted(seed):
                if not possible(shrunk - {place}):
                    shrunk.discard(place)
            found, into = frozenset(shrunk), conflicts
        if time.monotonic() > until:
            # what the solver leaves open counts as possible: a set that cannot hold cannot, but may not be minimal
            if into is conflicts and not conflicts:
                conflicts.append(found)
            break
        into.append(found)
    return conflicts, corrections, False


def unexplored(everything: frozenset[int], conflicts: Sequence[frozenset[int]],
               corrections: Sequence[frozenset[int]]) -> frozenset[int] | None:
    """A largest set that holds no conflict whole, and something of every correction; None when there is none left."""
    seen: set[frozenset[int]] = set()

    def search(chosen: frozenset[int]) -> frozenset[int] | None:
        if chosen in seen or not all(chosen & correction for correction in corrections):
            return None
        seen.add(chosen)
        whole = next((conflict for conflict in conflicts if conflict <= chosen), None)
        if whole is None:
            return chosen
        for place in sorted(whole):
            found = search(chosen - {place})
            if found is not None:
                return found
        return None

    return search(everything)
