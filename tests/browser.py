"""A page in headless Chromium -> what a function finds in it; NO_CHROMIUM is the reason where it cannot be looked at."""

import json
import re
import shutil
import subprocess
from html import escape, unescape
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NO_CHROMIUM = "no Chromium is installed"
OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=4000", "--dump-dom")


def found_in(page: str, function: str, folder: Path) -> Any:
    """What the function (of the page's window) gives.

    The page is in a frame, whose width the function may change: a window of Chromium is at least 500 pixels wide.
    """
    script = (
        f"addEventListener('load', function () {{ var found = ({function})(document.querySelector('iframe').contentWindow);"
        "document.documentElement.setAttribute('data-found', JSON.stringify(found)); });"
    )
    frame = f'<iframe style="border:0;width:1280px;height:900px" srcdoc="{escape(page)}"></iframe>'
    path = folder / "frame.html"
    path.write_text(f'<!doctype html><body style="margin:0"><script>{script}</script>{frame}', encoding="utf-8")
    command = [str(CHROMIUM), *OPTIONS, f"--user-data-dir={folder / 'profile'}", "--window-size=1280,900", path.as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    told = re.search(r'data-found="(.*?)"', shown)
    assert told, shown[:500]
    return json.loads(unescape(told[1]))
