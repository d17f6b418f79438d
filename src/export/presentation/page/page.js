// Keeps the page current: fetches it every few seconds and applies the differences, so that the focus, the selection,
// open details and the scroll position stay. This script creates no markup of its own; the server escapes all of it.
"use strict";
(() => {
  const INTERVAL_MS = 5000;
  const live = document.getElementById("live");
  const pause = document.getElementById("pause");
  const filter = document.getElementById("filter");
  const search = document.querySelector("form.search");
  const main = document.getElementById("main");
  const opened = new Set(); // the lists that the filter has opened
  let paused = false, lastUpdate = Date.now(), typing;

  document.documentElement.classList.add("js");

  const keyOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("data-key") : null);
  const sameElement = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);

  // Makes `old` equal to `fresh`, but keeps the nodes that both have.
  function patch(old, fresh) {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    for (const { name, value } of fresh.attributes) {
      if (name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    for (const { name } of [...old.attributes]) {
      if (name !== "open" && !fresh.hasAttribute(name)) old.removeAttribute(name);
    }
    const keyed = new Map();
    for (const child of old.childNodes) if (keyOf(child)) keyed.set(keyOf(child), child);
    let next = old.firstChild;
    for (const child of [...fresh.childNodes]) {
      const key = keyOf(child);
      const known = key ? keyed.get(key) : next && !keyOf(next) && sameElement(next, child) ? next : null;
      if (known && sameElement(known, child)) {
        if (known === next) next = next.nextSibling;
        else old.insertBefore(known, next);
        patch(known, child);
      } else {
        old.insertBefore(document.adoptNode(child), next);
      }
    }
    while (next) {
      const gone = next;
      next = next.nextSibling;
      gone.remove();
    }
  }

  // A finding inside of a card also matches the words of that card, such as the code of the finding.
  function searchText(element) {
    const card = element.parentElement.closest("[data-find]");
    const shared = card ? [...card.children].filter((child) => !child.hasAttribute("data-find")) : [];
    return [...shared, element].map((node) => node.textContent).join(" ").toLowerCase();
  }

  function applyFilter() {
    if (!filter) return;
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const filtered = words.length > 0;
    let matches = 0;
    document.documentElement.classList.toggle("filtered", filtered); // hides sections without matches
    for (const element of main.querySelectorAll("[data-find]")) {
      const text = filtered ? searchText(element) : "";
      const isOut = !words.every((word) => text.includes(word));
      element.classList.toggle("out", isOut);
      if (!isOut) matches += 1;
    }
    // Matches inside of collapsed lists would stay invisible.
    for (const list of main.querySelectorAll("details:not(.one)")) {
      if (filtered && !list.open && list.querySelector("[data-find]:not(.out)")) {
        list.open = true;
        opened.add(list);
      } else if (!filtered && opened.delete(list)) {
        list.open = false;
      }
    }
    const nothing = document.getElementById("nothing");
    nothing.hidden = !filtered || matches > 0;
    nothing.querySelector("a").search = new URLSearchParams({ search: filter.value });
  }

  // The address of the page contains the filter, so that a reload and a link keep it.
  function keepFilter() {
    const query = new URLSearchParams(location.search);
    if (filter.value) query.set("filter", filter.value);
    else query.delete("filter");
    history.replaceState(null, "", (query.size > 0 ? `?${query}` : location.pathname) + location.hash);
    applyFilter();
  }

  // Opens the finding that the address names, and the lists around it.
  function openTarget() {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    for (let node = target; node; node = node.parentElement) if (node.nodeName === "DETAILS") node.open = true;
    if (target) target.scrollIntoView();
  }

  function showConnection() {
    const lost = Date.now() - lastUpdate > 3 * INTERVAL_MS && !paused;
    live.classList.toggle("lost", lost);
    const recording = main.querySelector(".recording");
    const usual = !recording ? "live" : recording.dataset.every ? "playing" : "ended";
    const text = paused ? "paused" : lost ? `no response for ${Math.round((Date.now() - lastUpdate) / 1000)} s` : usual;
    if (live.textContent !== text) live.textContent = text;
  }

  async function refresh() {
    if (paused || document.hidden) return;
    const query = location.search;
    try {
      const response = await fetch(location.pathname + query, { cache: "no-store", signal: AbortSignal.timeout(INTERVAL_MS) });
      if (!response.ok && response.status !== 404) return; // the object of this page may have been deleted
      const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
      const body = fresh.getElementById("main");
      if (paused || !body || query !== location.search) return;
      patch(main, body);
      document.title = fresh.title;
      lastUpdate = Date.now();
      applyFilter();
    } catch {
      // `showConnection` reports an outage once it lasts.
    } finally {
      showConnection();
    }
  }

  // The level of a line at a place, in units of the drawing; null in a gap.
  function levelAt(line, x) {
    let level = null, from = 0, y = 0;
    for (const [, command, a, b] of line.matchAll(/([MHV])([\d.]+)(?: ([\d.]+))?/g)) {
      if (command === "M") [from, y] = [Number(a), Number(b)];
      else if (command === "V") y = Number(a);
      else {
        if (x >= from && x <= Number(a)) level = y;
        from = Number(a);
      }
    }
    return level;
  }

  const UNITS = {
    count: (value) => Math.round(value).toLocaleString("en"),
    rate: (value) => (value === 0 ? "0/s" : value >= 1 ? `${value.toFixed(1)}/s` : `${(value * 60).toFixed(1)}/min`),
    seconds: (value) => (value < 60 ? `${value.toFixed(value < 10 ? 1 : 0)}s` : `${Math.floor(value / 60)}m${Math.round(value % 60)}s`),
    bytes(value) {
      const power = Math.min(4, Math.floor(Math.log2(Math.max(value, 1)) / 10));
      return `${(value / 1024 ** power).toFixed(power > 0 ? 1 : 0)} ${["B", "KiB", "MiB", "GiB", "TiB"][power]}`;
    },
  };

  // Shows the values below the pointer in all charts, which cover the same time. Without a place, shows none.
  function showValues(place) {
    for (const chart of main.querySelectorAll(".plot svg")) {
      const axis = chart.parentElement.querySelector(".x");
      const x = place === null ? null : Math.round(place * 1000);
      chart.querySelector(".cursor").setAttribute("d", x === null ? "" : `M${x} 0V1000`);
      const values = x === null ? [] : [...chart.querySelectorAll("path:not(.cursor, .mark)")].flatMap((line) => {
        const level = levelAt(line.getAttribute("d"), x);
        const text = level === null ? "" : UNITS[chart.dataset.unit](((980 - level) / 960) * Number(chart.dataset.max));
        return level === null ? [] : [`${text} ${line.getAttribute("class") || ""}`.trim()];
      });
      const { from, to } = axis.dataset;
      const time = new Date(Number(from) + (place || 0) * (to - from)).toISOString().slice(11, 19);
      axis.querySelector("output").textContent = x === null ? "" : `${time}: ${values.join(", ") || "no value"}`;
    }
  }

  // Shows what the form asks for, as its submission would, but keeps the focus in the form.
  function searchNow() {
    const asked = new URLSearchParams([...new FormData(search)].filter(([, value]) => value !== ""));
    history.replaceState(null, "", `?${asked}`);
    refresh();
  }

  async function copy(button) {
    const code = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code); // the browser denied access to the clipboard
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) copy(button);
  });
  let pointed = false;
  document.addEventListener("pointermove", (event) => {
    const chart = event.target.closest(".plot svg");
    if (!chart && !pointed) return;
    const box = chart && chart.getBoundingClientRect();
    pointed = Boolean(chart);
    showValues(chart ? Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)) : null);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.ctrlKey && !event.metaKey && !/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.nodeName)) {
      const field = filter || document.getElementById("search");
      if (!field) return;
      event.preventDefault();
      field.focus();
    } else if (event.key === "Escape" && filter && event.target === filter) {
      filter.value = "";
      keepFilter();
    }
  });
  if (filter) {
    filter.addEventListener("input", keepFilter);
    filter.form.addEventListener("submit", (event) => event.preventDefault());
  }
  addEventListener("hashchange", openTarget);
  if (search) search.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(searchNow, 250);
  });
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    lastUpdate = Date.now(); // time spent paused is not an outage
    if (!paused) refresh();
    showConnection();
  });
  document.addEventListener("visibilitychange", refresh);
  // A recording that plays fast changes more often.
  function schedule() {
    const note = main.querySelector("[data-every]");
    setTimeout(() => refresh().finally(schedule), note ? Number(note.dataset.every) : INTERVAL_MS);
  }
  applyFilter(); // a link may have filled it in
  openTarget();
  schedule();
  showConnection();
})();
