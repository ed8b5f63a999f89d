"""Whether two traces hold the same, column by column."""

from dataclasses import fields

from longpole.analyze.trace import Table, Trace


def differences(first: Trace, second: Trace) -> list[str]:
    """Names of the fields and columns in which two traces differ, in value or in type."""
    found = []
    for f in fields(Trace):
        one, other = getattr(first, f.name), getattr(second, f.name)
        if isinstance(one, Table):
            columns = [(c.name, getattr(one, c.name), getattr(other, c.name)) for c in fields(one)]  # type: ignore[arg-type]
            found += [f"{f.name}.{name}" for name, a, b in columns if a.dtype != b.dtype or a.tolist() != b.tolist()]
        elif one != other:
            found.append(f.name)
    return found
