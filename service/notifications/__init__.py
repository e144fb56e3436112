"""Telling people and programs: from an event to a message that arrived."""
