"""Names and values that somebody else may have chosen, against everything that quotes, prints or runs them."""

CODE = (
    "'", '"', "`", "''", "\\", "\\'", "\\\\'; --", ";", "--", "/*", "*/", "#", "$$", "$tag$", "$1", "[", "]", "]]",
    "x'; DROP TABLE precious; --", 'x"; DROP TABLE precious; --', "x`; DROP TABLE precious; --",
    "$$[$$; DROP TABLE precious; SELECT $$]$$", "\\') THEN 0.5 ELSE (SELECT 42.0) END END FROM precious --",
    "*/ ; DROP TABLE precious; /*", "E'\\''", "${env:HOME}", "%s %% {x} ? :name @x", "a\nb", "a\r\n-- b", "\t",
    '""" + str(1 / 0) + """', "');import os#", "%>%@&;", "??/", "\u2028", "\u202eabc", "größe 数 🙂", "type", "str",
    "\x1b[31m", "None", "lambda", "int", "x" * 1_000,
)  # fmt: skip
"""Quotes, brackets, ends of statements and comments, escapes, line ends, words of languages, and long names."""
JINJA = ("{{ env_var('DB_PASSWORD') }}", "p{% do run_query('DROP TABLE precious') %}", "{# hidden", "'{{ 1 }}'")
NAMES = (*CODE, *JINJA)
