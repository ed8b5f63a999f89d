/* Theme, tooltips, sorting and filtering of tables, the contents' marker. The page can be read without any of it. */
(function () {
"use strict";
var page = document, root = page.documentElement;
function all(selector, within) { return Array.prototype.slice.call((within || page).querySelectorAll(selector)); }

/* Theme: auto, light, dark; kept where the browser allows storage. */
var themes = ["auto", "light", "dark"], theme = 0;
function setTheme(index) {
  theme = index;
  if (index) root.setAttribute("data-theme", themes[index]); else root.removeAttribute("data-theme");
  all("[data-act=theme]").forEach(function (button) { button.textContent = "Theme: " + themes[index]; });
  try { localStorage.setItem("longpole-theme", index); } catch (refused) { /* private window */ }
}
try { var kept = +localStorage.getItem("longpole-theme"); if (kept === 1 || kept === 2) setTheme(kept); } catch (refused) { /* same */ }
page.addEventListener("click", function (event) {
  var act = event.target.getAttribute && event.target.getAttribute("data-act");
  if (act === "theme") setTheme((theme + 1) % 3);
  if (act === "print") window.print();
});

/* Tooltips: one element, its text from data-t, beside the pointer and inside the window. */
var tip = page.getElementById("tip");
if (tip) {
  page.addEventListener("mousemove", function (event) {
    var mark = event.target.closest ? event.target.closest("[data-t]") : null;
    tip.hidden = !mark;
    if (!mark) return;
    tip.textContent = mark.getAttribute("data-t");
    var x = event.clientX + 14, y = event.clientY + 16, width = tip.offsetWidth, height = tip.offsetHeight;
    if (x + width > innerWidth - 8) x = Math.max(8, event.clientX - width - 12);
    if (y + height > innerHeight - 8) y = Math.max(8, event.clientY - height - 12);
    tip.style.left = x + "px";
    tip.style.top = y + "px";
  });
  page.addEventListener("scroll", function () { tip.hidden = true; }, { passive: true });
}

/* Boxes that scroll sideways: which have something to scroll, and whether there is more to the right. */
var boxes = all(".wide, .scroll");
function mark(box) {
  box.classList.toggle("more", box.scrollLeft + box.clientWidth < box.scrollWidth - 1);
}
function fit() {
  boxes.forEach(function (box) {
    box.classList.remove("fits");
    var fits = box.scrollWidth <= box.clientWidth;
    box.classList.toggle("fits", fits);
    if (fits) box.removeAttribute("tabindex"); else box.tabIndex = 0;
    mark(box);
  });
}
boxes.forEach(function (box) { box.addEventListener("scroll", function () { mark(box); }, { passive: true }); });
addEventListener("resize", fit);
if (page.fonts) page.fonts.ready.then(fit);
fit();

/* Sorting: click a header, largest first; again, smallest first. */
function value(cell) {
  var text = cell.textContent.trim();
  var number = parseFloat(text.replace(/\u2212/g, "-").replace(/[,\u202f]/g, ""));
  return isNaN(number) ? text.toLowerCase() : number;
}
function compare(a, b) {
  if (typeof a !== typeof b) return typeof a === "number" ? 1 : -1;
  return a < b ? -1 : a > b ? 1 : 0;
}
function sort(table, header, column) {
  var sign = header.getAttribute("aria-sort") === "descending" ? 1 : -1, body = table.tBodies[0];
  all("thead th", table).forEach(function (other) { other.removeAttribute("aria-sort"); });
  header.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
  var rows = Array.prototype.slice.call(body.rows).map(function (row) { return [value(row.cells[column]), row]; });
  rows.sort(function (a, b) { return sign * compare(a[0], b[0]); });
  rows.forEach(function (pair) { body.appendChild(pair[1]); });
}
all("table.sortable").forEach(function (table) {
  all("thead th", table).forEach(function (header, column) {
    header.tabIndex = 0;
    header.addEventListener("click", function () { sort(table, header, column); });
    header.addEventListener("keydown", function (event) {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      sort(table, header, column);
    });
  });
});

/* Filtering: every word must occur in the row. */
all("[data-filter]").forEach(function (input) {
  var id = input.getAttribute("data-filter"), shown = all('[data-count="' + id + '"]')[0];
  var rows = Array.prototype.slice.call(page.getElementById(id).tBodies[0].rows).map(function (row) {
    return [row.textContent.toLowerCase(), row];
  });
  function filter() {
    var words = input.value.toLowerCase().split(/\s+/).filter(Boolean), left = 0;
    rows.forEach(function (pair) {
      var keep = words.every(function (word) { return pair[0].indexOf(word) >= 0; });
      pair[1].hidden = !keep;
      if (keep) left += 1;
    });
    if (shown) shown.textContent = left + " of " + rows.length + " rows";
  }
  input.addEventListener("input", filter);
  filter();
});

/* Contents: mark the section in view. */
if ("IntersectionObserver" in window) {
  var links = {};
  all(".side a").forEach(function (link) { links[link.getAttribute("href").slice(1)] = link; });
  var observer = new IntersectionObserver(function (entries) {
    entries.forEach(function (entry) {
      if (!entry.isIntersecting) return;
      Object.keys(links).forEach(function (id) { links[id].classList.toggle("on", id === entry.target.id); });
    });
  }, { rootMargin: "-10% 0px -75% 0px" });
  Object.keys(links).forEach(function (id) {
    var section = page.getElementById(id);
    if (section) observer.observe(section);
  });
}
})();
