"""ONNX models of a map."""
