"""Places a fitted map can go: a JSON document, SQL text, an ONNX model; the last two with a proof."""
