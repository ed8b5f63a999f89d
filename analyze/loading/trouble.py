"""Codes of trouble in a file -> sentences: what it is, and what it cost."""

from collections.abc import Mapping

from ..trace import TraceWarning

# {count}: how many; {detail}: what else is known. HARMLESS: nothing was lost or changed.
SENTENCES = {
    "truncated_file": "The file is cut off ({detail}): {count} events were read, what came after is lost. {whole}",
    "unescaped_quotes": "Events whose text holds quotes that were not escaped: {count}; repaired, nothing of them is lost.",
    "raw_backslashes": "Events whose text holds backslashes that were not escaped: {count}; taken as they stand, none is lost.",
    "control_characters": "Events whose text holds control characters, which JSON forbids: {count}; repaired, nothing is lost.",
    "bad_utf8": "Events whose text is not valid UTF-8: {count}; each byte that is no character is shown as �.",
    "broken_borders": "Places between two events where a brace or comma is damaged: {count}; repaired, nothing is lost.",
    "stray_commas": "Events with a comma too many: {count}; repaired, nothing is lost.",
    "non_json_number": "Events with nan or inf, which JSON does not know: {count}; those values are taken as missing.",
    "lost_arguments": "Events whose arguments cannot be read: {count}; name and times are kept, shapes and links are lost.",
    "malformed_events": "Elements of the event list that are no readable events: {count}; left out.",
    "broken_metadata": "What stands beside the events is not valid JSON: {count} place; devices and versions may be missing.",
    "trailing_text": "Text after the end of the trace: {count} piece; ignored.",
    "missing_dur": "Events without a usable duration: {count}; left out.",
    "negative_dur": "Events with a negative duration: {count}; left out.",
    "missing_ts": "Events without a usable start time: {count}; left out.",
    "zero_timestamp_events": "Events that carry no time (0): {count}; left out. Of device work the time is then a lower bound.",
    "unmatched_begin": "Begin events without an end: {count}; left out.",
    "unmatched_end": "End events without a begin: {count}; left out.",
    "inexact_ids": "Ids that stand as rounded numbers: {count}; these events are linked to nothing by them.",
    "numbers_beyond_int64": "Numbers beyond 64 bits: {count}; taken as missing.",
    "unknown_categories": "Events of categories this version does not know: {count} ({detail}); counted, not used.",
    "events_without_rank": "Events whose process names no rank, beside others that do: {count}; taken for a rank of their own.",
    "missing_ranks": "Ranks of the launch that left no recording in the bundle: {count} ({detail}); they did not record, ended "
    "before theirs was written, or their files were not copied. The other ranks are read.",
    "incomplete_ranks": "Ranks whose recording is incomplete: {count} ({detail}); the report on each, by --rank, says why.",
    "other_launches": "Manifests in the folder that are of an older recording: {count}, not read ({detail}).",
    "older_windows": "Other recordings of the same rank in the folder: {count}, not read ({detail}); name the file to see it.",
    "other_files": "Files in the folder that are no traces: {count}, not read ({detail}).",
    "text_timestamps": "Events whose times stand as text: {count}; read exactly.",
    "events_out_of_order": "Events that stand in the file before earlier ones of their kind: {count}; sorted by their start.",
    "empty_events": "Empty elements {{}} in the list of events: {count}; they are no events.",
    "byte_order_mark": "A byte order mark before the text: {count}; skipped.",
    "wrong_suffix": "The name does not say what the file is: {detail}; read by its content.",
}
WITHOUT_SENTENCE = {"cut_events"}  # the last event of a file that was cut off
OF_ALL_RANKS = {"missing_ranks", "incomplete_ranks", "other_launches"}  # trouble of a bundle, told with each of its ranks
HARMLESS = {
    "text_timestamps",
    "events_out_of_order",
    "empty_events",
    "byte_order_mark",
    "wrong_suffix",
    "unknown_categories",
    "other_files",
}


def warnings(counts: Mapping[str, int], details: Mapping[str, str], whole: str = "") -> tuple[TraceWarning, ...]:
    """A warning for each code that was met, the costliest first: in the order of SENTENCES."""
    assert {code for code in counts if counts[code]} <= SENTENCES.keys() | WITHOUT_SENTENCE, "trouble that nobody would hear of"
    return tuple(
        TraceWarning(code, counts[code], _sentence(code, counts[code], details, whole), harmless=code in HARMLESS)
        for code in SENTENCES
        if counts.get(code)
    )


def _sentence(code: str, count: int, details: Mapping[str, str], whole: str) -> str:
    return SENTENCES[code].format(count=f"{count:,}", detail=details.get(code, ""), whole=whole).strip()
