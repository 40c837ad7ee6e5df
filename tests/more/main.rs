//! What takes Prometheus, the schemas of Kubernetes, npm, or a terminal that draws: `make test-more` runs these.

mod kubernetes;
mod metrics;
mod npm;
mod prometheus;
mod top;
