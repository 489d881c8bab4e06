// The pages' only script. It never acts: it keeps an approve from being pressed in passing, keeps times right, and says
// when something has changed. Every page works without it.
"use strict";
(function () {
  var POLL = 5000;
  var QUIET_AFTER = 60 * 60 * 1000;
  var news = document.getElementById("news");

  // Buttons that may approve wait until the page has been in sight for a moment.
  var timers = new Map();
  function hold(button) {
    var wait = Number(button.dataset.hold) || 1000;
    button.disabled = true;
    clearTimeout(timers.get(button));
    timers.set(button, setTimeout(function () {
      if (!button.dataset.stale) {
        button.disabled = false;
      }
    }, wait));
  }
  function holdAll() {
    document.querySelectorAll("button[data-hold]").forEach(hold);
  }
  holdAll();
  // Back from the cache of the browser, or from another tab, the page is new to whoever looks.
  window.addEventListener("pageshow", function (event) {
    if (event.persisted) {
      holdAll();
    }
  });
  document.addEventListener("visibilitychange", function () {
    if (!document.hidden) {
      holdAll();
    }
  });

  // "expires in 43 min"
  function span(seconds) {
    var days = Math.floor(seconds / 86400);
    var hours = Math.floor((seconds % 86400) / 3600);
    var minutes = Math.floor((seconds % 3600) / 60);
    if (days > 0) {
      return days + (days === 1 ? " day" : " days") + (hours > 0 ? " " + hours + " h" : "");
    }
    if (hours > 0) {
      return hours + " h" + (minutes > 0 ? " " + minutes + " min" : "");
    }
    return minutes > 0 ? minutes + " min" : Math.floor(seconds) + " s";
  }
  // Counted from what the page said when it came: the clock of this machine may be wrong.
  var came = performance.now();
  function tick() {
    document.querySelectorAll("time[data-left]").forEach(function (time) {
      var left = Number(time.dataset.left) - (performance.now() - came) / 1000;
      time.textContent = left > 0 ? "in " + span(left) : span(-left) + " ago";
      time.classList.toggle("soon", left < 600);
    });
  }

  // Says that something has changed; what was about to be approved is then no longer what is in sight.
  var watched = document.querySelector("[data-watch]");
  var last = Date.now();
  ["pointerdown", "keydown", "scroll"].forEach(function (kind) {
    document.addEventListener(kind, function () { last = Date.now(); }, { passive: true });
  });
  function announce() {
    document.querySelectorAll("button[data-hold]").forEach(function (button) {
      button.dataset.stale = "yes";
      button.disabled = true;
    });
    news.textContent = "";
    var link = document.createElement("a");
    link.href = location.pathname + location.search;
    link.textContent = "Something has changed. Show it";
    news.appendChild(link);
    news.classList.add("shown");
  }
  function look() {
    var asleep = document.hidden || Date.now() - last > QUIET_AFTER;
    if (asleep) {
      setTimeout(look, POLL);
      return;
    }
    fetch(watched.dataset.watch, { credentials: "same-origin", redirect: "error", cache: "no-store" })
      .then(function (answer) { return answer.ok ? answer.text() : null; })
      .then(function (mark) {
        if (mark !== null && mark !== watched.dataset.mark) {
          announce();
          return;
        }
        setTimeout(look, POLL);
      })
      .catch(function () { setTimeout(look, 4 * POLL); });
  }
  if (document.querySelector("time[data-left]")) {
    setInterval(tick, 1000 * 15);
  }
  if (watched) {
    setTimeout(look, POLL);
  }
})();
