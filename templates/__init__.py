"""Jinja2 templates, style sheets, script and fonts of the report; data only."""
