// The address holds the view, so that it can be shared: `#task/example/system?order=high&by=words&sort0=-MAUVE`.

const address = { position: "", fields: [] };

// Register what the address holds: `write` returns [name, value] pairs, `read` takes URLSearchParams.
function addAddressFields(write, read) {
  address.fields.push({ write, read });
}

function parseAddress() {
  const [position, query = ""] = location.hash.slice(1).split("?");
  return { position, query: new URLSearchParams(query) };
}

function formatAddress(position = address.position) {
  const query = new URLSearchParams(address.fields.flatMap(({ write }) => write())).toString();
  return `#${position}${query && `?${query}`}`;
}

function writeAddress() {
  const hash = formatAddress();
  history.replaceState(null, "", hash === "#" ? location.href.split("#")[0] : hash);
}

// Restore everything that the address holds; a later jump to a bare anchor (`#main`) changes nothing.
async function readAddress(event) {
  const { position, query } = parseAddress();
  const isAnchor = position && !position.includes("/");
  if (event && isAnchor && !query.toString()) return;
  address.position = isAnchor ? "" : position;
  for (const { read } of address.fields) await read(query);
}

function decodeWord(word) {
  try {
    return decodeURIComponent(word);
  } catch {
    return word;
  }
}

function startAddress() {
  window.addEventListener("hashchange", readAddress);
  return readAddress();
}
