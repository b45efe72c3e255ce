// The page around the client. It writes to nothing but this page and the file that the respondent asks for. The answer lives in
// the input fields, until the report exists, and in arguments of functions.
(() => {
  "use strict";
  const find = (id) => document.getElementById(id);
  const data = JSON.parse(find("question").textContent);
  const { client, ask, labels, k } = data;
  const { randomize, rangeOf, cellOf, placeOf, labelNumber } = clientOf(data);

  // `rows` are the reports of this device so far, `handed` how many of them were saved or copied.
  const rows = [];
  let handed = 0;
  let open = false;

  function numberIn(id, problem) {
    const value = find(id).value.trim();
    if (value === "") throw new Error(problem);
    // Thousands are set apart by a comma here and by a point there: a number that could be read in two ways is not read.
    if (!/^[-\u2212+]?[0-9]+(\.[0-9]+)?$/.test(value)) throw new Error("Please write the number in digits, such as 2400 or 2400.5.");
    return Number(value.replace("\u2212", "-"));
  }

  // The number of the answer that was entered; says what is missing.
  function answer() {
    if (find("none") && find("none").checked) return data.noAnswer;
    if (ask.what === "number") return rangeOf(numberIn("number", "Please enter a number."));
    if (ask.what === "place") {
      const latitude = numberIn("latitude", "Please enter a latitude.");
      return placeOf(cellOf(latitude, numberIn("longitude", "Please enter a longitude.")));
    }
    if (ask.what === "text") {
      const label = find("text").value;
      if (!label.trim()) throw new Error("Please write an answer.");
      return labelNumber(label);
    }
    const chosen = find("answer").querySelector("input:checked, option:checked");
    if (!chosen) throw new Error("Please choose an answer.");
    return Number(chosen.value);
  }

  function respondent() {
    const name = find("respondent").value.trim();
    if (rows.length && rows[0].respondent && !name) throw new Error("Please enter the respondent, as for the reports before.");
    if (name && rows.some((row) => row.respondent === name)) throw new Error("This respondent has a report already.");
    return name;
  }

  function search() {
    const wanted = find("search").value.trim().toLowerCase();
    const fits = [];
    for (let place = 0; place < k; place++) if (labels[place].toLowerCase().includes(wanted)) fits.push(place);
    const shown = fits.slice(0, 200);
    find("list").replaceChildren(...shown.map((place) => new Option(labels[place], place)));
    find("list").selectedIndex = -1;
    const more = shown.length < fits.length ? `; the first ${shown.length} are shown` : "";
    find("found").textContent = `${fits.length} of ${k} answers${more}`;
  }

  // New fields in place of the old ones: nothing of an answer stays in the page, nor in what a browser can undo.
  function wipe() {
    find("answer").replaceChildren(find("fields").content.cloneNode(true));
    find("respondent").value = "";
    find("problem").textContent = "";
    if (find("search")) {
      find("search").addEventListener("input", search);
      search();
    }
    if (find("none")) {
      find("none").addEventListener("change", () => {
        for (const input of find("answer").querySelectorAll("input.figure")) {
          input.value = "";
          input.disabled = find("none").checked;
        }
      });
    }
  }

  // What a report of bits or buckets stands for.
  function reading(report) {
    if (client.how === "hashing") return `It names group ${parseInt(report.slice(-4), 16) + 1} of ${client.buckets}.`;
    if (!["unary", "subset"].includes(client.how) || k > 40) return "";
    const marked = labels.filter((_, place) => (parseInt(report[place >> 2], 16) >> (3 - (place & 3))) & 1);
    return marked.length ? `It marks: ${marked.join("; ")}.` : "It marks none of the answers.";
  }

  function show(opened) {
    open = opened;
    find("ask").hidden = !opened;
    find("done").hidden = opened;
    find("again").hidden = opened;
    find("file").hidden = !rows.length;
    // A file names all respondents or none of them.
    find("who").hidden = rows.length > 0 && !rows[0].respondent;
    find("count").textContent = rows.length === 1 ? "one report" : `${rows.length} reports`;
    find("said").textContent = "";
  }

  function close() {
    // One answer, one report: whoever could draw again and again would find the answer by averaging.
    if (!open) return;
    try {
      const name = respondent();
      const report = randomize(answer());
      rows.push({ respondent: name, report });
      wipe();
      show(false);
      find("report").textContent = report;
      find("reading").textContent = reading(report);
      find("done-title").focus();
    } catch (problem) {
      find("problem").textContent = problem.message;
    }
  }

  function next() {
    find("report").textContent = "";
    find("reading").textContent = "";
    wipe();
    show(true);
    find("answer").querySelector("input").focus();
  }

  function csv() {
    const named = rows.length > 0 && rows[0].respondent !== "";
    const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const line = (row) => [data.fingerprint, ...(named ? [row.respondent] : []), row.report].map(quoted).join(",");
    return [named ? "question,respondent,report" : "question,report", ...rows.map(line), ""].join("\n");
  }

  function handedOver(words) {
    handed = rows.length;
    find("said").textContent = words;
  }

  function download() {
    const address = URL.createObjectURL(new Blob([csv()], { type: "text/csv" }));
    const link = document.createElement("a");
    Object.assign(link, { href: address, download: `reports-${data.fingerprint}.csv` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60000);
    handedOver("The file is with your downloads.");
  }

  async function copy() {
    try {
      await navigator.clipboard.writeText(csv());
      handedOver("Copied.");
      return;
    } catch {
      // Some browsers keep the clipboard from pages that are opened as files, but not from a text that is marked.
    }
    const text = document.createElement("textarea");
    text.value = csv();
    document.body.append(text);
    text.select();
    const copied = document.execCommand("copy");
    text.remove();
    if (copied) handedOver("Copied.");
    else find("said").textContent = "This browser does not let a page copy. Please download the file.";
  }

  if (typeof crypto === "undefined" || !crypto.getRandomValues) {
    find("refused").hidden = false;
    return;
  }
  find("go").addEventListener("click", close);
  find("next").addEventListener("click", next);
  find("download").addEventListener("click", download);
  find("copy").addEventListener("click", copy);
  // A page that a browser keeps for the way back keeps no answer.
  window.addEventListener("pagehide", wipe);
  window.addEventListener("beforeunload", (event) => {
    if (handed < rows.length) event.preventDefault();
  });
  wipe();
  show(true);
  window.dpsurveyClient = Object.freeze({ randomize, rangeOf, cellOf, placeOf, labelNumber, csv });
})();
