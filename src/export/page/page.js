// Keeps the page fresh: fetches it again and carries over what changed, so that the focus, the selection, open details
// and the scroll position stay. The server writes all markup, in one place and escaped; nothing here makes any.
"use strict";
(() => {
  const EVERY = 5000;
  const live = document.getElementById("live");
  const pause = document.getElementById("pause");
  const filter = document.getElementById("filter");
  const main = document.getElementById("main");
  let paused = false, heard = Date.now();

  document.documentElement.classList.add("js");

  const keyOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("data-key") : null);
  const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);

  // Makes `old` say what `fresh` says, and keeps the nodes that stay.
  function carryOver(old, fresh) {
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
    let at = old.firstChild;
    for (const child of [...fresh.childNodes]) {
      const key = keyOf(child);
      const known = key ? keyed.get(key) : at && !keyOf(at) && alike(at, child) ? at : null;
      if (known && alike(known, child)) {
        if (known === at) at = at.nextSibling;
        else old.insertBefore(known, at);
        carryOver(known, child);
      } else {
        old.insertBefore(document.adoptNode(child), at);
      }
    }
    while (at) {
      const gone = at;
      at = at.nextSibling;
      gone.remove();
    }
  }

  function narrow() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const element of main.querySelectorAll("[data-find]")) {
      const text = element.textContent.toLowerCase();
      element.classList.toggle("out", !words.every((word) => text.includes(word)));
    }
  }

  function say() {
    const lost = Date.now() - heard > 3 * EVERY && !paused;
    live.classList.toggle("lost", lost);
    const text = paused ? "paused" : lost ? `no answer for ${Math.round((Date.now() - heard) / 1000)} s` : "live";
    if (live.textContent !== text) live.textContent = text;
  }

  async function refresh() {
    if (paused || document.hidden) return;
    try {
      const response = await fetch(location.pathname, { cache: "no-store", signal: AbortSignal.timeout(EVERY) });
      if (!response.ok) return;
      const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
      const body = fresh.getElementById("main");
      if (paused || !body) return;
      carryOver(main, body);
      document.title = fresh.title;
      heard = Date.now();
      narrow();
    } catch {
      // Said by `say` when it lasts.
    } finally {
      say();
    }
  }

  async function copy(button) {
    const code = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code); // without the right to the clipboard
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) copy(button);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.ctrlKey && !event.metaKey && !/^(INPUT|TEXTAREA)$/.test(event.target.nodeName)) {
      event.preventDefault();
      filter.focus();
    } else if (event.key === "Escape" && event.target === filter) {
      filter.value = "";
      narrow();
    }
  });
  filter.addEventListener("input", narrow);
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    if (!paused) refresh();
    say();
  });
  document.addEventListener("visibilitychange", refresh);
  setInterval(refresh, EVERY);
  say();
})();
