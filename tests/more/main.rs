//! What takes Prometheus, the schemas of Kubernetes, npm, packages, or a terminal that draws: `make test-more` runs these.

mod kubernetes;
mod metrics;
mod npm;
mod packages;
mod prometheus;
mod top;
