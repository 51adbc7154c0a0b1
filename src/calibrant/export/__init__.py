"""Exports of a fitted map: JSON document, SQL text, ONNX model; SQL and ONNX are verified against the map."""
