"""An HTTP server that steps published agents online and keeps each session's memory."""
