# Homebrew's formula, for Linux: `make dist` writes a copy of it into its directory, with the checksum of the tarball.
class Beadlock < Formula
  desc "Locks beside a sync daemon, for as long as a command runs"
  homepage "https://github.com/OWNER/beadlock"
  url "https://github.com/OWNER/beadlock/releases/download/v0.2.0/beadlock-0.2.0-x86_64-unknown-linux-gnu.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on arch: :x86_64
  depends_on :linux

  def install
    # Units name the programs where the tarball would have them.
    inreplace Dir["lib/systemd/*/*.service"], "/usr/local/", "#{HOMEBREW_PREFIX}/"
    prefix.install Dir["*"]
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/beadlock --version")
    assert_match version.to_s, shell_output("#{bin}/beadlock-agent --version")
    assert_equal "claimed", shell_output("#{bin}/beadlock hold -q lock:#{testpath}/lock -- echo claimed").strip
  end
end
