-- SPDX-License-Identifier: GPL-2.0
--
-- The table of GPUs for loga.lua, which reads this file from its own folder: one file of bounded
-- size, and which nodes the lists of Slurm name. A table has ten thousand rows, best first, and most
-- choices look at a few: rows are taken apart when one comes to them, and kept while the table is
-- the same.

local tables = {}

-- `loga slurm table` writes no more.
local MAX_TABLE = 2 * 1024 * 1024
local MAX_ROWS = 16384
-- Lists of nodes of which is remembered what they name.
local MAX_LISTS = 64

-- The table that was read last, as far as it was needed.
local known
-- Compiled lists of nodes, by their texts.
local lists, list_count = {}, 0

-- An element of a list such as n[1-3,07]: what is before and after the brackets, and the ranges.
-- Nothing without brackets, or with more than one pair of them.
local function bracketed(element)
	local before, inside, after = element:match("^([^%[%]]*)%[([%d,%-]+)%]([^%[%]]*)$")
	if not before then
		return nil
	end
	local ranges = {}
	for range in inside:gmatch("[^,]+") do
		local first, last = range:match("^(%d+)%-(%d+)$")
		first = first or range:match("^%d+$")
		last = last or first
		if first then
			ranges[#ranges + 1] = { wide = #first, first = tonumber(first), last = tonumber(last) }
		end
	end
	return { before = before, after = after, ranges = ranges }
end

-- Whether such an element names the node.
local function names_it(element, node)
	local before, after = element.before, element.after
	if #node <= #before + #after or node:sub(1, #before) ~= before or
		(#after > 0 and node:sub(-#after) ~= after) then
		return false
	end
	local digits = node:sub(#before + 1, #node - #after)
	if #digits > 9 or not digits:match("^%d+$") then
		return false
	end
	local number = tonumber(digits)
	for _, range in ipairs(element.ranges) do
		-- As wide as written: n[01-10] has no n1.
		local wide = #digits == range.wide or (#digits > range.wide and digits:sub(1, 1) ~= "0")
		if wide and number >= range.first and number <= range.last then
			return true
		end
	end
	return false
end

-- A list such as "a,n[1-3]", taken apart, with what was asked of it.
local function compile(list)
	local compiled = { known = {}, elements = {} }
	local depth, start = 0, 1
	for at = 1, #list + 1 do
		local letter = list:sub(at, at)
		if letter == "[" then
			depth = depth + 1
		elseif letter == "]" then
			depth = depth - 1
		elseif letter == "" or (letter == "," and depth == 0) then
			local element = list:sub(start, at - 1)
			local ranges = bracketed(element)
			if ranges then
				compiled.elements[#compiled.elements + 1] = ranges
			else
				compiled.known[element] = true
			end
			start = at + 1
		end
	end
	return compiled
end

-- Whether such a list names the node.
function tables.names(compiled, node)
	local answer = compiled.known[node]
	if answer == nil then
		answer = false
		for _, element in ipairs(compiled.elements) do
			answer = answer or names_it(element, node)
		end
		compiled.known[node] = answer
	end
	return answer
end

-- A list taken apart: once for as long as its partition is the same.
function tables.list(list)
	local compiled = lists[list]
	if not compiled then
		if list_count >= MAX_LISTS then
			lists, list_count = {}, 0
		end
		compiled = compile(list)
		lists[list], list_count = compiled, list_count + 1
	end
	return compiled
end

-- "GPU SCORE AGE SHARDS CPUS MEMORY"; false for a GPU of which the controller knows too little. A
-- false row makes the whole table useless.
local function parse_row(node, rest)
	local gpu, score, age, shards, cpus, memory =
		rest:match("^(%d+) (%d%.%d+) (%d+) (%S+) (%S+) (%S+)$")
	if not gpu or #gpu > 2 or #age > 5 or #node > 64 or not node:match("^%w[%w%.%-_]*$") then
		error("false line")
	end
	score = tonumber(score)
	if score > 1 then
		error("false line")
	end
	if shards == "-" then
		return false
	end
	for _, digits in ipairs({ shards, cpus, memory }) do
		if not digits:match("^%d+$") or #digits > 15 then
			error("false line")
		end
	end
	return {
		node = node,
		gpu = tonumber(gpu),
		key = node .. " " .. gpu,
		-- How much longer a newcomer takes; the score is this over one plus this.
		slowdown = score / (1.001 - score),
		age = tonumber(age),
		shards = tonumber(shards),
		cpus = tonumber(cpus),
		memory = tonumber(memory),
	}
end

-- A table of which no row is read yet.
local function unread(content)
	return {
		content = content,
		-- The node of the next line, and where the rest of that begins. Goes on where it stopped.
		next = content:gmatch("([^ \n]*)()[^\n]*\n"),
		nodes = {}, begins = {}, rows = {},
	}
end

-- The number of the next row behind `at` whose node is in a list, and that node; nothing behind the
-- last one. Lines are split when one comes to them.
function tables.next(rows, list, at)
	local nodes, begins, named = rows.nodes, rows.begins, list.known
	while true do
		at = at + 1
		local node = nodes[at]
		if not node then
			-- The header is no row.
			if at == 1 then
				rows.next()
			end
			local begin
			node, begin = rows.next()
			if not node or at > MAX_ROWS then
				-- It stays at its end.
				rows.next = function() return nil end
				return node and error("too many lines")
			end
			nodes[at], begins[at] = node, begin
		end
		local is_named = named[node]
		if is_named == nil then
			is_named = tables.names(list, node)
		end
		if is_named then
			return at, node
		end
	end
end

-- A row of the table, read when it is looked at; false for one that cannot be chosen.
function tables.row(rows, at)
	local row = rows.rows[at]
	if row == nil then
		local rest = rows.content:match("^ ([^\n]*)", rows.begins[at])
		row = parse_row(rows.nodes[at], rest or "")
		rows.rows[at] = row
	end
	return row
end

-- The table, or nothing if it is absent or old.
function tables.read(path, max_age, now)
	local file = io.open(path, "r")
	if not file then
		return nil, "no table"
	end
	-- Never more than this, whatever the file is.
	local content = file:read(MAX_TABLE + 1)
	file:close()
	if not content or #content > MAX_TABLE or content:sub(-1) ~= "\n" then
		error("empty, cut off or too long")
	end
	local time = content:match("^# loga%-slurm%-table 2 (%d+)\n")
	if not time or #time > 12 then
		error("not a table of version 2")
	end
	local age = now - tonumber(time)
	if age > max_age or age < -max_age then
		return nil, "old table"
	end
	-- Lua keeps one copy of equal texts: this is quick.
	if not known or content ~= known.content then
		known = unread(content)
	end
	return known, nil, age
end

return tables
