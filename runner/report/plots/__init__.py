"""The report's plots, as Vega-Lite."""
