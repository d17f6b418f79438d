# One target per promise; `make check` is what CI runs.
.PHONY: check fmt lint test rules docs

check: fmt lint rules test

# Formatting is rustfmt's.
fmt:
	cargo fmt --all --check

# Warnings are errors here and nowhere else, so that a newer compiler does not break anybody's build.
lint:
	cargo clippy --workspace --all-targets -- -D warnings

# The README's test command: pure tests, then a real control plane, operator, Prometheus and Alertmanager.
test:
	cargo test

# Alert rules: their syntax, and that each is silent, fires and clears when it should.
rules:
	promtool check rules alerts/*.rules.yaml
	cd alerts/tests && promtool test rules *.test.yaml

# Rewrites what is generated from tables and recordings: read the diff.
docs:
	UPDATE=1 cargo test --lib --test contracts --test scenarios
