"""Finite-sample guarantees: interval bounds, certificates, planning, and the provenance they rest on."""
