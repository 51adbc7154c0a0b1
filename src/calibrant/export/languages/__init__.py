"""Languages of the targets: SQL dialects, ONNX graphs, Python and C. No kind of map is known here."""
