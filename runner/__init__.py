"""The machinery: labs, nodes, trial loop, measurement, statistics, store, report, command line."""
