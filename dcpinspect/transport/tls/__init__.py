"""TLS between reassembly and framing: with the secrets of a key log, chunks of cipher text become
chunks of plain text.
"""
