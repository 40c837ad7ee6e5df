# What Homebrew does with the formula, as far as it goes without Homebrew: unpacks the tarball, installs and tests it.
#
#   ruby formula.rb FORMULA TARBALL DIRECTORY
require "digest"
require "fileutils"
require "open3"
require "pathname"

formula, TARBALL, root = ARGV
HOMEBREW_PREFIX = File.join(root, "brew")

# A prefix or a part of it, into which files are moved.
class Keg < Pathname
  def install(files)
    mkpath
    files.each { |file| FileUtils.mv(file, self) }
  end
end

# Homebrew's class, with the words that the formula uses.
class Formula
  SAID = {}
  %i[desc homepage url sha256 license].each do |word|
    define_singleton_method(word) { |value| SAID[word] = value }
  end
  def self.depends_on(*) = nil
  def self.test(&block) = define_method(:tested, &block)

  def prefix = Keg.new(File.join(HOMEBREW_PREFIX, "Cellar"))
  def bin = prefix + "bin"
  def testpath = Pathname.new(File.join(HOMEBREW_PREFIX, "test")).tap(&:mkpath)
  # As Homebrew reads it from the address.
  def version = SAID[:url][%r{/v([0-9.]+)/}, 1]

  def inreplace(files, before, after)
    abort "inreplace: no files" if files.empty?
    files.each do |file|
      text = File.read(file)
      abort "inreplace: #{file} has no #{before}" unless text.include?(before)
      File.write(file, text.gsub(before, after))
    end
  end

  def shell_output(command)
    said, status = Open3.capture2(command)
    abort "#{command}: #{status}" unless status.success?
    said
  end

  def assert_match(part, whole) = whole.include?(part) || abort("#{whole.inspect} has no #{part.inspect}")
  def assert_equal(expected, found) = expected == found || abort("#{found.inspect} is not #{expected.inspect}")
end

load formula
abort "its url names another file" unless File.basename(Formula::SAID[:url]) == File.basename(TARBALL)
abort "its sha256 is another file's" unless Formula::SAID[:sha256] == Digest::SHA256.file(TARBALL).hexdigest
FileUtils.mkdir_p(File.join(root, "unpacked"))
Dir.chdir(File.join(root, "unpacked")) do
  system("tar", "--strip-components=1", "-xzf", TARBALL, exception: true)
  beadlock = Beadlock.new
  beadlock.install
  beadlock.tested
  puts "#{Dir.glob("#{beadlock.prefix}/**/*").count { |file| File.file?(file) }} files"
end
