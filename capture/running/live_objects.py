"""Classes -> the objects of this process that are of them now."""

import gc


def living(classes: tuple[type, ...]) -> list[object]:
    """Objects of these classes or of subclasses. It looks at every object there is: tens of milliseconds in a large program."""
    known: dict[type, bool] = {}  # the class itself is asked: an object may answer for its class, and do something then
    found = []
    for one in gc.get_objects():
        kind = type(one)
        if kind not in known:
            known[kind] = issubclass(kind, classes)
        if known[kind]:
            found.append(one)
    return found


def lives(classes: tuple[type, ...]) -> bool:
    """Whether there is any."""
    return bool(living(classes))
