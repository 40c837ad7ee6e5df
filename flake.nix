# Both programs, built from the sources with all that `make install` installs:
#
#   nix profile install github:OWNER/beadlock
{
  description = "Locks beside a sync daemon, for as long as a command runs";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" ];
      # The version stands there alone.
      inherit (builtins.fromTOML (builtins.readFile ./Cargo.toml)) workspace;
      beadlock =
        pkgs:
        pkgs.rustPlatform.buildRustPackage {
          pname = "beadlock";
          inherit (workspace.package) version;
          src = self;
          cargoLock.lockFile = ./Cargo.lock;
          cargoBuildFlags = [
            "--package=beadlock-cli"
            "--package=beadlock-agent"
            "--bins"
          ];
          # The tests start programs that a build has no use for.
          doCheck = false;
          installPhase = ''
            runHook preInstall
            patchShebangs scripts
            PREFIX=$out UNITDIR=$out/lib/systemd DESTDIR= BEADLOCK_BIN=$releaseDir scripts/install.sh install
            runHook postInstall
          '';
          meta = {
            description = "Locks beside a sync daemon, for as long as a command runs";
            homepage = workspace.package.repository;
            license = with pkgs.lib.licenses; [
              mit
              asl20
            ];
            mainProgram = "beadlock";
            platforms = systems;
          };
        };
    in
    {
      packages = nixpkgs.lib.genAttrs systems (system: {
        default = beadlock nixpkgs.legacyPackages.${system};
      });
    };
}
