// The client of one question, as it runs in a respondent's browser: one answer in, one report out, and nothing kept.
function clientOf(data) {
  "use strict";
  const { client, ask, labels, k } = data;

  // Words of the device's cryptographic generator. Used ones are erased: whoever knows the noise knows the answer.
  const words = new Uint32Array(1024);
  let unused = 0;
  function word() {
    if (!unused) {
      crypto.getRandomValues(words);
      unused = words.length;
    }
    unused -= 1;
    const value = words[unused];
    words[unused] = 0;
    return value;
  }

  // A whole number below the bound, all equally likely: numbers past the last whole multiple of the bound are drawn again.
  function below(bound) {
    const last = 2 ** 53 - (2 ** 53 % bound);
    for (;;) {
      const value = (word() >>> 11) * 2 ** 32 + word();
      if (value < last) return value % bound;
    }
  }

  // The same beyond 2^53, for the numbers of a hash function.
  function belowLarge(bound) {
    const last = 2n ** 64n - (2n ** 64n % bound);
    for (;;) {
      const value = (BigInt(word()) << 32n) | BigInt(word());
      if (value < last) return value % bound;
    }
  }

  function pick(weights) {
    let left = below(weights.reduce((sum, weight) => sum + weight, 0));
    let place = 0;
    while (left >= weights[place]) left -= weights[place++];
    return place;
  }

  // Generalised randomised response: the answer, or one of the others in order and without the answer.
  function respond(code, choices) {
    if (pick([(choices - 1) * client.other, client.truth])) return code;
    const other = below(choices - 1);
    return other + (other >= code ? 1 : 0);
  }

  // One bit for each category, the first one in the highest bit of the first byte.
  function hexadecimal(bits) {
    let text = "";
    for (let start = 0; start < bits.length; start += 8) {
      let byte = 0;
      for (let place = start; place < start + 8; place++) byte = byte * 2 + (bits[place] || 0);
      text += byte.toString(16).padStart(2, "0");
    }
    return text;
  }

  function noisyBits(code) {
    const bits = Array.from({ length: k }, () => pick([client.zero, client.one]));
    bits[code] = pick([1, 1]);
    return hexadecimal(bits);
  }

  function subset(code) {
    const inside = pick([client.outside, client.inside]);
    const others = new Set();
    // Floyd's method for a random set of the other k - 1 categories.
    for (let last = k - 1 - (client.size - inside); last < k - 1; last++) {
      const tried = below(last + 1);
      others.add(others.has(tried) ? last : tried);
    }
    const bits = new Array(k).fill(0);
    for (const other of others) bits[other + (other >= code ? 1 : 0)] = 1;
    bits[code] = inside;
    return hexadecimal(bits);
  }

  function hashed(code) {
    const prime = BigInt(client.prime);
    const [a, b] = [belowLarge(prime), belowLarge(prime)];
    const bucket = Number((BigInt(client.buckets) * ((a * BigInt(code) + b) % prime)) / prime);
    const numbers = [a, b].map((number) => number.toString(16).padStart(2 * client.digits, "0"));
    return numbers.join("") + respond(bucket, client.buckets).toString(16).padStart(4, "0");
  }

  // One answer, as the number of its category, in; the text of one report out.
  function randomize(code) {
    const known = k ? Number.isInteger(code) && code >= 0 && code < k : BigInt(code) >= 0n && BigInt(code) < BigInt(client.prime);
    if (!known) throw new RangeError("the answer is none of the categories");
    switch (client.how) {
      case "direct":
        return labels[pick(client.dice[code])];
      case "generalised":
        return labels[respond(code, k)];
      case "unary":
        return noisyBits(code);
      case "subset":
        return subset(code);
      case "hashing":
        return hashed(code);
      default:
        throw new Error("this page does not know the mechanism");
    }
  }

  // SHA-256, since browsers keep their own one from some pages that are opened as files. Its constants are the first 32 bits
  // of the fractions of square and cube roots of primes; roots of whole numbers are computed, not looked up.
  const primes = [];
  for (let n = 2; primes.length < 64; n++) if (primes.every((prime) => n % prime)) primes.push(n);
  function rootBits(prime, degree) {
    const target = BigInt(prime) << BigInt(32 * degree);
    let root = 0n;
    for (let bit = 36n; bit >= 0n; bit--) if ((root | (1n << bit)) ** BigInt(degree) <= target) root |= 1n << bit;
    return Number(root & 0xffffffffn);
  }
  const starts = primes.slice(0, 8).map((prime) => rootBits(prime, 2));
  const rounds = primes.map((prime) => rootBits(prime, 3));

  function sha256(text) {
    const bytes = new TextEncoder().encode(text);
    const padded = new DataView(new ArrayBuffer((((bytes.length + 8) >> 6) + 1) << 6));
    bytes.forEach((byte, place) => padded.setUint8(place, byte));
    padded.setUint8(bytes.length, 0x80);
    padded.setUint32(padded.byteLength - 4, bytes.length * 8);
    const turn = (value, by) => (value >>> by) | (value << (32 - by));
    let state = starts;
    for (let block = 0; block < padded.byteLength; block += 64) {
      const w = Array.from({ length: 16 }, (_, place) => padded.getUint32(block + 4 * place));
      for (let t = 16; t < 64; t++) {
        const s0 = turn(w[t - 15], 7) ^ turn(w[t - 15], 18) ^ (w[t - 15] >>> 3);
        const s1 = turn(w[t - 2], 17) ^ turn(w[t - 2], 19) ^ (w[t - 2] >>> 10);
        w.push((w[t - 16] + s0 + w[t - 7] + s1) | 0);
      }
      let [a, b, c, d, e, f, g, h] = state;
      for (let t = 0; t < 64; t++) {
        const t1 = h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + rounds[t] + w[t];
        const t2 = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        [a, b, c, d, e, f, g, h] = [(t1 + t2) | 0, a, b, c, (d + t1) | 0, e, f, g];
      }
      state = [a, b, c, d, e, f, g, h].map((value, place) => (value + state[place]) >>> 0);
    }
    return state.map((value) => value.toString(16).padStart(8, "0")).join("");
  }

  // The number of a label in an open domain: 16 bytes of SHA-256, modulo the prime. The same letters can be written in two
  // ways, so they are composed first.
  function labelNumber(label) {
    const written = label.replace(/^[ \t\r\n]+|[ \t\r\n]+$/g, "").normalize("NFC");
    return BigInt("0x" + sha256(written).slice(0, 32)) % BigInt(client.prime);
  }

  // Cells: the same floating-point operations in the same order as in Python.
  function rangeOf(number) {
    if (!Number.isFinite(number)) throw new Error("Please enter a number.");
    const [low, high] = [ask.edges[0], ask.edges[ask.edges.length - 1]];
    if (!ask.open && !(low <= number && number <= high)) throw new Error(`Please enter a number from ${low} to ${high}.`);
    const passed = ask.edges.filter((edge) => edge <= number).length;
    return Math.min(Math.max(passed - 1, 0), ask.edges.length - 2);
  }

  function columnsOf(row) {
    if (ask.columns) return ask.columns;
    if (row in ask.odd) return ask.odd[row];
    const height = 180 / ask.rows;
    const edges = [-90 + row * height, -90 + (row + 1) * height];
    const widest = edges[0] <= 0 && 0 <= edges[1] ? 1 : Math.max(...edges.map((edge) => Math.cos(edge * (Math.PI / 180))));
    return Math.max(1, Math.ceil((360 * ask.degree * widest) / ask.amount - 1e-9));
  }

  function cellOf(latitude, longitude) {
    if (!(latitude >= -90 && latitude <= 90)) throw new Error("Please enter a latitude from \u221290 to 90.");
    if (!(longitude >= -180 && longitude <= 180)) throw new Error("Please enter a longitude from \u2212180 to 180.");
    const row = Math.min(Math.floor(((latitude + 90) * ask.rows) / 180), ask.rows - 1);
    const columns = columnsOf(row);
    return `${ask.name}:${row}:${Math.floor(((longitude + 180) * columns) / 360) % columns}`;
  }

  const places = new Map(labels.map((label, place) => [label, place]));
  const placeOf = (label) => (k ? places.get(label) ?? ask.elsewhere : labelNumber(label));

  return Object.freeze({ randomize, rangeOf, cellOf, placeOf, labelNumber });
}
