"""Measuring through a tunnel: one file for each kind of traffic; what several use is in instruments/tools.

Every number here has a guard that refuses it when the instrument did not do what it was asked.
"""
