//! A real etcd of the test's own: one node or three, on a loopback address that nobody else has, with its data in a
//! directory that goes with it. Where `etcd` is missing the test skips.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::{Dice, Running, memory, tool, until};

const CLIENTS: u16 = 2379;
const PEERS: u16 = 2380;

/// An etcd that ends with this value, by its PIDs.
pub struct Etcd {
    program: PathBuf,
    /// The first three parts of its nodes' addresses.
    network: String,
    dir: TempDir,
    nodes: Vec<Option<Running>>,
    options: Vec<String>,
    tls: Option<Tls>,
}

/// A CA and a certificate for the nodes, in PEM.
#[derive(Debug, Clone)]
pub struct Tls {
    /// The certificate of the CA.
    pub ca: PathBuf,
    /// The certificate of the nodes.
    pub cert: PathBuf,
    /// Their key.
    pub key: PathBuf,
}

impl Etcd {
    /// One node; `None`: there is no etcd here, and the test skips.
    #[track_caller]
    pub fn one() -> Option<Self> {
        Self::of(1, &[])
    }

    /// Three nodes.
    #[track_caller]
    pub fn three() -> Option<Self> {
        Self::of(3, &[])
    }

    /// So many nodes, with these options more.
    ///
    /// # Panics
    ///
    /// When they do not answer within [`PATIENCE`](crate::PATIENCE); when it is missing and `CI` is set.
    #[track_caller]
    pub fn of(nodes: usize, options: &[&str]) -> Option<Self> {
        let mut etcd = Self::unstarted(nodes, options)?;
        etcd.start_all();
        Some(etcd)
    }

    /// One node behind TLS, with a CA of its own made by `openssl`.
    #[track_caller]
    pub fn with_tls() -> Option<Self> {
        tool("openssl")?;
        let mut etcd = Self::unstarted(1, &[])?;
        etcd.tls = Some(certificates(etcd.dir.path(), &etcd.host(0)));
        etcd.start_all();
        Some(etcd)
    }

    #[track_caller]
    fn unstarted(nodes: usize, options: &[&str]) -> Option<Self> {
        let (program, _) = (tool("etcd")?, tool("etcdctl")?);
        // This etcd may be too old to be told not to sync to a disk.
        let dir = tempfile::tempdir_in(memory());
        let mut dice = Dice::new(number(), "etcd");
        let network = format!("127.{}.{}", 1 + dice.below(250), 1 + dice.below(250));
        let mut options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        // The cheapest hash: on a busy machine the usual one takes longer than etcd has for an answer.
        options.push("--bcrypt-cost=4".to_owned());
        if help(&program).contains("unsafe-no-fsync") {
            options.push("--unsafe-no-fsync".to_owned());
        }
        let (nodes, dir) = (
            (0..nodes).map(|_| None).collect(),
            dir.expect("a temporary directory"),
        );
        Some(Self {
            program,
            network,
            dir,
            nodes,
            options,
            tls: None,
        })
    }

    #[track_caller]
    fn start_all(&mut self) {
        for node in 0..self.nodes.len() {
            self.launch(node);
        }
        self.until_ready();
    }

    fn host(&self, node: usize) -> String {
        format!("{}.{}", self.network, 1 + node)
    }

    /// `HOST:PORT` of a node.
    pub fn node(&self, node: usize) -> String {
        format!("{}:{CLIENTS}", self.host(node))
    }

    /// The address of a node.
    pub fn address(&self, node: usize) -> SocketAddr {
        self.node(node).parse().expect("an address")
    }

    fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    fn url_of(&self, node: usize) -> String {
        format!("{}://{}", self.scheme(), self.node(node))
    }

    /// The url of a fleet at all nodes.
    pub fn url(&self, prefix: &str) -> String {
        let nodes: Vec<String> = (0..self.nodes.len()).map(|node| self.node(node)).collect();
        let scheme = if self.tls.is_some() { "etcds" } else { "etcd" };
        format!("{scheme}://{}/{prefix}", nodes.join(","))
    }

    /// Its CA, where it has one.
    pub fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// Where it keeps data and logs, and a test may put files.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn launch(&mut self, node: usize) {
        let (client, peer) = (
            self.url_of(node),
            format!("http://{}:{PEERS}", self.host(node)),
        );
        let cluster: Vec<String> = (0..self.nodes.len())
            .map(|node| format!("n{node}=http://{}:{PEERS}", self.host(node)))
            .collect();
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.dir.path().join(format!("log{node}")));
        let mut command = Command::new(&self.program);
        command
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command.args([
            "--name",
            &format!("n{node}"),
            "--logger",
            "zap",
            "--log-outputs",
            "stderr",
        ]);
        command.arg("--data-dir").arg(self.data(node));
        command.args([
            "--listen-client-urls",
            &client,
            "--advertise-client-urls",
            &client,
        ]);
        command.args([
            "--listen-peer-urls",
            &peer,
            "--initial-advertise-peer-urls",
            &peer,
        ]);
        command.args([
            "--initial-cluster",
            &cluster.join(","),
            "--initial-cluster-state",
            "new",
        ]);
        if let Some(tls) = &self.tls {
            command
                .arg("--cert-file")
                .arg(&tls.cert)
                .arg("--key-file")
                .arg(&tls.key);
        }
        command.args(&self.options);
        self.nodes[node] = Some(Running::on(log.expect("a log"), command));
    }

    fn data(&self, node: usize) -> PathBuf {
        self.dir.path().join(format!("data{node}"))
    }

    /// Waits until a transaction goes through.
    #[track_caller]
    pub fn until_ready(&self) {
        until("etcd answers", || {
            let is_open = |node| {
                TcpStream::connect_timeout(&self.address(node), Duration::from_millis(200)).is_ok()
            };
            let living = (0..self.nodes.len()).filter(|node| self.nodes[*node].is_some());
            living.clone().all(is_open) && self.try_ctl(&["put", "readiness", "1"]).is_some()
        });
    }

    /// SIGKILL of one node.
    #[track_caller]
    pub fn kill(&mut self, node: usize) {
        self.nodes[node] = None;
    }

    /// Starts one node again, with the data that it has.
    #[track_caller]
    pub fn start(&mut self, node: usize) {
        self.launch(node);
        self.until_ready();
    }

    /// The same where nobody without a password may ask whether it is ready.
    pub fn start_without_looking(&mut self, node: usize) {
        self.launch(node);
    }

    /// Kills all nodes, takes all data away, and starts them again.
    #[track_caller]
    pub fn lose_data(&mut self) {
        self.kill_all();
        for node in 0..self.nodes.len() {
            fs::remove_dir_all(self.data(node)).expect("the data of a node that has ended");
        }
        self.start_all();
    }

    /// Kills all nodes and starts them again with their data.
    #[track_caller]
    pub fn restart(&mut self) {
        self.kill_all();
        self.start_all();
    }

    /// Kills all nodes.
    pub fn kill_all(&mut self) {
        self.nodes.iter_mut().for_each(|node| *node = None);
    }

    /// Puts a snapshot in the place of all data, behind everybody's back. One node.
    #[track_caller]
    pub fn restore(&mut self, snapshot: &Path) {
        self.kill_all();
        fs::remove_dir_all(self.data(0)).expect("the data of a node that has ended");
        let mut command = Command::new("etcdctl");
        command
            .env("ETCDCTL_API", "3")
            .args(["snapshot", "restore"])
            .arg(snapshot);
        command.args([
            "--name",
            "n0",
            "--initial-cluster",
            &format!("n0=http://{}:{PEERS}", self.host(0)),
        ]);
        command.args([
            "--initial-advertise-peer-urls",
            &format!("http://{}:{PEERS}", self.host(0)),
        ]);
        command
            .arg("--data-dir")
            .arg(self.data(0))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        assert!(
            command.status().expect("etcdctl").success(),
            "the snapshot was not restored"
        );
        self.start_all();
    }

    /// Stops one node, or lets it go on.
    #[track_caller]
    pub fn signal(&self, node: usize, signal: Signal) {
        self.nodes[node]
            .as_ref()
            .expect("a node that lives")
            .signal(signal);
    }

    /// The leader among those that live.
    ///
    /// # Panics
    ///
    /// When there is none for [`PATIENCE`](crate::PATIENCE).
    #[track_caller]
    pub fn leader(&self) -> usize {
        let mut found = None;
        until("there is a leader", || {
            found = (0..self.nodes.len())
                .filter(|node| self.nodes[*node].is_some())
                .find(|node| self.is_leader(*node));
            found.is_some()
        });
        found.expect("a leader")
    }

    fn is_leader(&self, node: usize) -> bool {
        let of = |name: &str| self.status(node, name);
        of("leader").is_some() && of("leader") == of("header/member_id")
    }

    /// A number of the status of a node.
    fn status(&self, node: usize, name: &str) -> Option<u64> {
        let status = self.ctl_at(
            &self.url_of(node),
            &["endpoint", "status", "--write-out=json"],
        )?;
        let status: serde_json::Value = serde_json::from_str(&status).ok()?;
        status.pointer(&format!("/0/Status/{name}"))?.as_u64()
    }

    /// Makes another node the leader; whether that was done.
    pub fn move_leader(&self) -> bool {
        let others = (0..self.nodes.len()).find(|node| !self.is_leader(*node));
        let Some(id) = others.and_then(|node| self.status(node, "header/member_id")) else {
            return false;
        };
        self.try_ctl(&["move-leader", &format!("{id:x}")]).is_some()
    }

    /// `etcdctl` with these words.
    ///
    /// # Panics
    ///
    /// When it fails.
    #[track_caller]
    pub fn ctl(&self, words: &[&str]) -> String {
        self.try_ctl(words)
            .unwrap_or_else(|| panic!("etcdctl {words:?} failed"))
    }

    /// The same; `None` when it fails.
    pub fn try_ctl(&self, words: &[&str]) -> Option<String> {
        let living = (0..self.nodes.len()).filter(|node| self.nodes[*node].is_some());
        let endpoints: Vec<String> = living.map(|node| self.url_of(node)).collect();
        self.ctl_at(&endpoints.join(","), words)
    }

    fn ctl_at(&self, endpoints: &str, words: &[&str]) -> Option<String> {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args([
            "--endpoints",
            endpoints,
            "--dial-timeout=1s",
            "--command-timeout=2s",
        ]);
        if let Some(tls) = &self.tls {
            command.arg("--cacert").arg(&tls.ca);
        }
        let output = command
            .args(words)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Makes `root` and a user with a password who may read and write below a prefix, and asks for passwords from now
    /// on.
    #[track_caller]
    pub fn require_passwords(&self, user: &str, password: &str, prefix: &str) {
        for words in [
            &["user", "add", "root:rootpw"][..],
            &["user", "grant-role", "root", "root"],
            &["user", "add", &format!("{user}:{password}")],
            &["role", "add", "beads"],
            &[
                "role",
                "grant-permission",
                "beads",
                "--prefix=true",
                "readwrite",
                prefix,
            ],
            &["user", "grant-role", user, "beads"],
            &["auth", "enable"],
        ] {
            self.ctl(words);
        }
    }

    /// What a node has logged so far.
    pub fn log(&self, node: usize) -> String {
        fs::read_to_string(self.dir.path().join(format!("log{node}"))).unwrap_or_default()
    }
}

/// One that no other etcd has, of this run or another.
fn number() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = u64::from(jiff::Timestamp::now().subsec_nanosecond().cast_unsigned());
    u64::from(std::process::id()) << 32 ^ now ^ COUNT.fetch_add(1, Ordering::Relaxed) << 48
}

fn help(program: &Path) -> String {
    let output = Command::new(program)
        .arg("--help")
        .stdin(Stdio::null())
        .output()
        .expect("etcd --help");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// A CA, and a certificate for this address.
#[track_caller]
pub fn certificates(dir: &Path, address: &str) -> Tls {
    let file = |name: &str| dir.join(name);
    let openssl = |words: &[&str]| {
        let mut command = Command::new("openssl");
        command
            .current_dir(dir)
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        assert!(
            command.status().expect("openssl").success(),
            "openssl {words:?}"
        );
    };
    let curve = [
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ];
    let ca = [
        "req",
        "-x509",
        "-subj",
        "/CN=test CA",
        "-keyout",
        "ca.key",
        "-out",
        "ca.pem",
        "-days",
        "2",
    ];
    openssl(&[&ca[..], &curve[..]].concat());
    let request = [
        "req", "-subj", "/CN=etcd", "-keyout", "node.key", "-out", "node.csr",
    ];
    openssl(&[&request[..], &curve[..]].concat());
    fs::write(
        file("node.ext"),
        format!("subjectAltName=IP:{address}\nextendedKeyUsage=serverAuth,clientAuth\n"),
    )
    .expect("a file");
    let sign = [
        "x509",
        "-req",
        "-in",
        "node.csr",
        "-CA",
        "ca.pem",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
        "-out",
        "node.pem",
    ];
    openssl(&[&sign[..], &["-days", "2", "-extfile", "node.ext"]].concat());
    Tls {
        ca: file("ca.pem"),
        cert: file("node.pem"),
        key: file("node.key"),
    }
}
