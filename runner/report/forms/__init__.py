"""One report as terminal text, HTML, Markdown, LaTeX, PDF, and raw tables."""
