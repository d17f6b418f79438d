//! Decodes one object into its slim view, in one pass, whatever its shape.
