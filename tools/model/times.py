"""When something is to happen."""
from speaker import MONTHS, WEEKDAYS

NO_CLOCK = "I don't know what time it is now. Say in how many minutes or hours, or every day at what time."


def when(say):
    """When something is to happen: how the user says it, how the assistant does, and the parameter of the job."""
    n = say.pick(2, 3, 5, 10, 15, 20, 30, say.random.randint(2, 90))
    hour, minute = say.random.randint(0, 23), say.pick(0, 0, say.random.randint(0, 59))
    spoken_hour = say.pick(f"{hour}:{minute:02d}", f"{hour:02d}:{minute:02d}")
    if minute == 0 and say.chance(.6):
        half = "am" if hour < 12 else "pm"
        twelve = (hour + 11) % 12 + 1
        spoken_hour = say.pick(str(hour), f"{hour} o'clock", f"{twelve}{half}", f"{twelve} {half}")
    day = say.pick(*range(7))
    weekday = WEEKDAYS[day] if say.chance(.8) else WEEKDAYS[day].lower()
    time = f"{minute} {hour}"
    choice = say.weighted({"delay": 9, "every": 6, "daily": 6, "weekly": 2, "part": 2})
    if choice == "delay":
        unit, short = say.pick(("minute", "m"), ("minute", "m"), ("hour", "h"), ("second", "s"))
        spoken = say.pick(f"in {n} {unit}s", f"in {n} {unit}s", f"in {n} {unit[:3]}" if unit != "hour" else f"in {n}h", f"in {n}{short}")
        if say.chance(.2):
            n, spoken = 1, say.pick(f"in {'an' if unit == 'hour' else 'a'} {unit}", f"in one {unit}")
        return spoken, f"in {n} {unit}{'' if n == 1 else 's'}", {"delay": f"{n}{short}"}
    if choice == "every":
        times = {"minute": "* * * * *", "hour": "0 * * * *", "day": "0 0 * * *"} | {f"{n} minutes": f"*/{n} * * * *" for n in (2, 5, 10, 15, 20, 30)}
        every = say.pick(*times)
        return say.pick(f"every {every}", f"every {every}", f"once every {every}", f"each {every}" if every.endswith("minute") else f"every {every}"), f"every {every}", {"schedule": times[every]}
    if choice == "daily":
        spoken = say.pick(f"every day at {spoken_hour}", f"daily at {spoken_hour}", f"each day at {spoken_hour}", f"at {spoken_hour} every day")
        if 5 <= hour < 12 and say.chance(.6):
            spoken = say.pick(f"every morning at {spoken_hour}", f"each morning at {spoken_hour}")
        elif 13 <= hour < 24 and say.chance(.6):  # "every evening at 6" is at 18:00
            twelve = f"{hour - 12}" + (f":{minute:02d}" if minute else "")
            spoken = say.pick("every", "each") + " " + ("afternoon" if hour < 17 else "evening" if hour < 22 else "night") + " at " + say.pick(twelve, spoken_hour)
        return spoken, f"every day at {hour:02d}:{minute:02d}", {"schedule": f"{time} * * *"}
    if choice == "weekly":
        if say.chance(.25):
            return say.pick("every weekday at ", "on weekdays at ") + spoken_hour, f"every weekday at {hour:02d}:{minute:02d}", {"schedule": f"{time} * * 1-5"}
        return say.pick("every", "each", "on every") + f" {weekday} at {spoken_hour}", f"every {WEEKDAYS[day]} at {hour:02d}:{minute:02d}", {"schedule": f"{time} * * {day}"}
    spoken, hour = say.pick(("every morning", 8), ("every noon", 12), ("every evening", 18), ("every night", 22), ("every day at noon", 12), ("every day at midnight", 0))
    return spoken, f"every day at {hour:02d}:00", {"schedule": f"0 {hour} * * *"}


def at_a_time(say):
    """A request for which one has to know what time it is."""
    hour = say.random.randint(1, 12)
    when = say.pick(f"at {hour}", f"at {hour}pm", f"at {hour}:30", f"at {hour} am", "tomorrow", f"tomorrow at {hour}", "tonight", f"on {say.pick(*WEEKDAYS)}",
                    f"on {say.pick(*MONTHS)} {hour}", "next week", f"next {say.pick(*WEEKDAYS)}", "today at noon", "later", "this evening")
    deed = say.deed()
    return say.request(say.pick(f"remind me {when} to {deed}", f"remind me to {deed} {when}", f"{when} remind me to {deed}", f"set an alarm for {hour}", f"wake me {when}",
                                f"fetch {say.url()} {when}"))
