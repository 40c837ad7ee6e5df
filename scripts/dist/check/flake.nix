# What flake.nix gives nixpkgs to build, as far as it goes without nixpkgs: a set of functions that hand back what they get.
{ flake }:
let
  nixpkgs = {
    lib.genAttrs =
      names: f:
      builtins.listToAttrs (
        map (name: {
          inherit name;
          value = f name;
        }) names
      );
    legacyPackages.x86_64-linux = {
      rustPlatform.buildRustPackage = given: given;
      lib.licenses = {
        mit = "MIT";
        asl20 = "Apache-2.0";
      };
    };
  };
  outputs = (import flake).outputs {
    self = "source";
    inherit nixpkgs;
  };
  package = outputs.packages.x86_64-linux.default;
in
''
  version=${package.version}
  homepage=${package.meta.homepage}
  flags="${toString package.cargoBuildFlags}"
  install() {
  ${package.installPhase}
  }
''
