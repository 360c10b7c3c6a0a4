"use strict";
(() => {
  const root = document.documentElement;

  // The theme: automatic, light or dark, remembered where the browser allows it.
  const themes = ["auto", "light", "dark"];
  const button = document.getElementById("theme");
  const remembered = () => { try { return localStorage.getItem("boggn-theme"); } catch { return null; } };
  const show = (theme) => {
    root.dataset.theme = theme;
    button.textContent = `Theme: ${theme}`;
  };
  show(themes.includes(remembered()) ? remembered() : "auto");
  button.addEventListener("click", () => {
    const theme = themes[(themes.indexOf(root.dataset.theme) + 1) % themes.length];
    show(theme);
    try { localStorage.setItem("boggn-theme", theme); } catch { /* it lasts as long as the page */ }
  });

  // The contents list tells where one is.
  const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.hash.slice(1), a]));
  const seen = new Set();
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) seen[entry.isIntersecting ? "add" : "delete"](entry.target.id);
    const current = [...links.keys()].find((id) => seen.has(id));
    for (const [id, a] of links) id === current ? a.setAttribute("aria-current", "true") : a.removeAttribute("aria-current");
  }, { rootMargin: "-10% 0px -60% 0px" });
  document.querySelectorAll("main section").forEach((section) => watcher.observe(section));

  // Marks: each path holds many, a key for each. The nearest one to the pointer is told of.
  const tips = JSON.parse(document.getElementById("tips").textContent);
  tips.next = "Where the sampler would go next";
  const tip = document.getElementById("tip");
  const parsed = new WeakMap();
  const marksOf = (svg) => {
    if (!parsed.has(svg)) {
      const marks = [];
      for (const path of svg.querySelectorAll("path[data-keys]")) {
        const keys = path.dataset.keys ? path.dataset.keys.split(" ") : [];
        const shapes = path.getAttribute("d").split("M").slice(1);
        keys.forEach((key, i) => marks.push({
          key, d: `M${shapes[i]}`, points: shapes[i].split(/[Lh]/).map((p) => p.split(" ").map(Number)).filter((p) => p.length === 2),
        }));
      }
      parsed.set(svg, marks);
    }
    return parsed.get(svg);
  };
  const away = (mark, x, y, width, height) => {
    const at = mark.points.map(([u, v]) => [u * width / 1000, v * height / 1000]);
    let least = Infinity;
    for (let i = 0; i < at.length; i++) {
      const [ax, ay] = at[i], [bx, by] = at[Math.min(i + 1, at.length - 1)];
      const length = (bx - ax) ** 2 + (by - ay) ** 2;
      const share = length ? Math.max(0, Math.min(1, ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / length)) : 0;
      least = Math.min(least, Math.hypot(x - ax - share * (bx - ax), y - ay - share * (by - ay)));
    }
    return least;
  };
  let shown = null;
  const hide = () => {
    tip.hidden = true;
    if (shown) shown.remove();
    shown = null;
  };
  const tell = (svg, mark) => {
    hide();
    shown = document.createElementNS("http://www.w3.org/2000/svg", "path");
    shown.setAttribute("d", mark.d);
    shown.setAttribute("class", mark.points.length > 1 ? "pointed line" : "pointed");
    svg.append(shown);
    tip.textContent = tips[mark.key] ?? "";
    tip.hidden = false;
    const box = svg.getBoundingClientRect(), size = tip.getBoundingClientRect();
    const [u, v] = mark.points.at(-1);
    const x = box.left + u * box.width / 1000, y = box.top + v * box.height / 1000;
    const left = x + 14 + size.width > innerWidth ? x - 14 - size.width : x + 14;
    tip.style.left = `${Math.max(4, Math.min(left, innerWidth - size.width - 4))}px`;
    tip.style.top = `${Math.max(4, Math.min(y - size.height / 2, innerHeight - size.height - 4))}px`;
  };
  for (const svg of document.querySelectorAll(".plot svg")) {
    let at = -1;
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      let best = null, least = 18;
      for (const mark of marksOf(svg)) {
        const distance = away(mark, event.clientX - box.left, event.clientY - box.top, box.width, box.height);
        if (distance < least) [best, least] = [mark, distance];
      }
      best ? tell(svg, best) : hide();
    });
    svg.addEventListener("pointerleave", hide);
    svg.addEventListener("blur", hide);
    svg.addEventListener("keydown", (event) => {
      if (event.key === "Escape") return hide();
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const marks = [...new Map(marksOf(svg).map((mark) => [mark.key, mark])).values()];
      if (!step || !marks.length) return;
      event.preventDefault();
      marks.sort((a, b) => a.key.localeCompare(b.key, "en", { numeric: true }));
      at = at < 0 ? (step > 0 ? 0 : marks.length - 1) : (at + step + marks.length) % marks.length;
      tell(svg, marks[at]);
    });
  }
  addEventListener("scroll", hide, { passive: true });
})();
