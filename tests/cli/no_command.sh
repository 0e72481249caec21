pare
