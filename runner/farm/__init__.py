"""Spreads a run over many machines, and keeps what they measure."""
