# Sourced: the upstream tar of a Debian source package, with lists of packages of its own,
# so that the machine's stay as they are.

# debian_source FOLDER SUITE PACKAGE: unpacks it into FOLDER/PACKAGE, once.
debian_source() {
  local folder=$1 suite=$2 package=$3 apt="$1/apt"
  [ ! -e "$folder/$package/done" ] || return 0
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$folder/$package"
  touch "$apt/status"
  echo "deb-src http://deb.debian.org/debian $suite main" >"$apt/sources.list"
  local options=(-qq -o "Dir::Etc::sourcelist=$apt/sources.list"
    -o Dir::Etc::sourceparts=/nonexistent -o "Dir::State::lists=$apt/lists"
    -o "Dir::Cache=$apt/cache" -o "Dir::State::status=$apt/status"
    -o APT::Sandbox::User=root)
  [ -e "$apt/updated" ] || apt-get "${options[@]}" update
  touch "$apt/updated"
  (cd "$folder" && apt-get "${options[@]}" source --download-only --tar-only "$package")
  tar xf "$(compgen -G "$folder/${package}_*.orig.tar.?z" | tail -n 1)" \
    -C "$folder/$package" --strip-components 1
  touch "$folder/$package/done"
}
